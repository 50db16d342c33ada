"""Entry for spark-submit: `spark-submit jobs/pipeline.py run PIPELINE --bootstrap HOST:PORT ...`."""

from endmark.cli.app import main

if __name__ == "__main__":
    main()
