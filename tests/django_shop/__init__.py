"""An application of Django for tests/doors/postgres/test_django.py."""
