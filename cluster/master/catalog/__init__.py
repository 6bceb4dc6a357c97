"""The catalog of the masters: DDL, the system tablet, and its copies."""
