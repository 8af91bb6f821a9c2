"""The images of the Dockerfile, built and run: by `make test-image`."""
