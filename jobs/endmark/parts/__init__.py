"""What endmark brings along: JVM jars, a Kafka broker and a MariaDB server as child processes."""
