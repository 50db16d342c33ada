"""Embedded parts: JVM jars, and a Kafka broker and a MariaDB server as child processes."""
