"""Embedded parts: the jars of the JVM, and a Kafka broker and a MariaDB server as child processes."""
