"""A small web service that collects reports: durable, idempotent, with a page to watch.

Needs the extra `collector` (FastAPI, uvicorn, SQLAlchemy); nothing here is imported elsewhere.
"""
