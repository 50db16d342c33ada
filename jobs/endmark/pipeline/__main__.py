"""Print the JSON Schema that `make schemas` keeps in schemas/."""

import json

from endmark.pipeline import Pipeline

if __name__ == "__main__":
    print(json.dumps(Pipeline.model_json_schema(), indent=2))
