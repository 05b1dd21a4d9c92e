# The trainer on NVIDIA's CUDA runtime, without Python and without root.
#
#   docker build -t trainer .
#   docker run --rm --gpus all -v "$PWD:/work" --user "$(id -u):$(id -g)" trainer --config exp.yaml
#
# docs/containers.md says more. The runtime image must not be older (glibc, libstdc++) than the
# builder.
ARG RUNTIME=nvidia/cuda:13.0.2-runtime-ubuntu24.04

FROM debian:12 AS builder
WORKDIR /src
# The set-up alone first: it is downloaded again only when one of these changes.
COPY scripts/setup.sh scripts/common.sh scripts/apt-packages.txt scripts/apt-packages-dev.txt scripts/
COPY requirements.txt .
RUN scripts/setup.sh
COPY . .
RUN scripts/package.sh --no-archive && mv dist/trainer-* /opt/trainer
# Torch's libraries and NVIDIA's, laid out as in the wheels, since they find one another by it.
RUN set -eu; site=$(echo .venv/lib/python3*/site-packages); mkdir -p /opt/libtorch/torch; \
    cp -a "$site/torch/lib" "$site/torch/version.py" /opt/libtorch/torch/; \
    rm -f /opt/libtorch/torch/lib/libtorch_python.so; \
    for folder in "$site"/nvidia/*/lib; do \
      name=$(basename "$(dirname "$folder")"); mkdir -p "/opt/libtorch/nvidia/$name"; \
      cp -a "$folder" "/opt/libtorch/nvidia/$name/"; \
    done

FROM ${RUNTIME}
COPY --from=builder /opt/libtorch /opt/libtorch
COPY --from=builder /opt/trainer /opt/trainer
RUN ln -s /opt/trainer/trainer /usr/local/bin/trainer \
    && useradd --create-home --uid 10001 trainer && mkdir /work && chown trainer /work
ENV LIBTORCH=/opt/libtorch/torch
USER trainer
WORKDIR /work
# exec form: SIGTERM reaches the program, which saves and ends with code 143.
STOPSIGNAL SIGTERM
ENTRYPOINT ["trainer"]
CMD ["--help"]
