"""Settings of gunicorn that fit NeuroGC; start with `neurogc run -- gunicorn -c gunicorn.conf.py app:app`."""

bind = "0.0.0.0:8000"
workers = 4

# The application is loaded once and its memory is shared with the workers. The agent of the master stops its threads for the
# moment of each fork and starts them again, in the worker too.
preload_app = True

# A worker that is replaced after many requests hides a leak, and `neurogc memory` needs some minutes to see one. Leave it out
# until the leak is found.
max_requests = 0
