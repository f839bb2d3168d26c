"""Goal states from Kafka: a log read at least once, in bounded memory (docs/kafka.md)."""
