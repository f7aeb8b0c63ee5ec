#!/usr/bin/env bash
# Measures what kernels for the GPU rely on: bits of matrix products, latencies, memory, launches (bench/cuda/). Needs nvcc and a Hopper GPU (sm_90a).
# The probe uses nothing of makar; the next line names a small target because without it ./dev bench builds everything.
# builds: makar_base
set -euo pipefail
cd "$(dirname "$0")/.."
command -v nvcc >/dev/null || { echo "cuda_probe: nvcc is not installed" >&2; exit 1; }
mkdir -p build
nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++20 bench/cuda/probe.cu -o build/bench_cuda_probe -lcublasLt -lcuda
exec build/bench_cuda_probe "$@"
