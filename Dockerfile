# An image for helm/kai-ray:  docker build -t REGISTRY/kai-ray:0.1.0 .
# No test builds it: the project is tested without a container engine.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /dist

FROM python:3.12-slim
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/*.whl)[all]" && rm /tmp/*.whl
USER 10000:10000
ENV HOME=/tmp
ENTRYPOINT ["kai"]
CMD ["run"]
