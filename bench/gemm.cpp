// f32 matrix products at transformer shapes against OpenBLAS and BLIS, measured in one run.
// Y[m, n] = X[m, k] W[n, k]^T; a case is MxNxK and a form:
// - cold, warm: W packed once (inference); cold cycles through copies of W that exceed the last-level cache
// - packed: W packed once, many rows
// - plain: W not packed (forward pass in training)
// - dx, dw: the gradients dX[m, k] = dY W and dW[n, k] += dY^T X
#include "kernels/cpu/gemm.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "bench/blas.h"
#include "bench/run.h"

using namespace makar;
using namespace makar::kernels;

namespace {

struct GemmBench {
  const bench::RunOptions& options;
  ThreadPool& pool;
  const std::vector<bench::Blas>& peers;
  std::vector<double> versus_best;  // ratio to the better peer, one per case

  void compare(const std::string& name, double flops, const std::function<void()>& run_makar,
               const std::function<void(const bench::Blas&)>& run_peer) {
    if (!options.wants(name)) return;
    std::vector<std::function<void()>> calls = {run_makar};
    for (const auto& peer : peers) calls.push_back([&run_peer, &peer] { run_peer(peer); });
    const auto times = options.time(calls, pool.threads());
    const auto rate = [&](size_t i) { return flops / bench::median(times[i].seconds_per_call) * 1e-9; };
    if (!options.json) fmt::print("{:<24} {:8.1f}", name, rate(0));
    std::optional<bench::Line> worst;
    for (size_t i = 0; i < peers.size(); ++i) {
      const bench::Line line{
          "gemm",
          name,
          peers[i].name,
          "GFLOP/s",
          pool.threads(),
          rate(0),
          rate(i + 1),
          bench::spread(times[0].seconds_per_call) + bench::spread(times[i + 1].seconds_per_call),
          times[0].quiet && times[i + 1].quiet};
      if (!worst || line.ratio() < worst->ratio()) worst = line;
      if (options.json)
        line.print_json();
      else
        fmt::print(" {:10.1f}", line.peer_value);
    }
    if (worst) versus_best.push_back(worst->ratio());
    if (!options.json && worst)
      fmt::print("   {:5.2f}  +-{:.0f} %{}\n", worst->ratio(), worst->spread * 100,
                 worst->quiet ? "" : " disturbed");
    else if (!options.json)
      fmt::print("\n");
    std::fflush(stdout);
  }
};

Tensor noise(int64_t count, uint32_t seed) {
  Tensor t = Tensor::empty({count});
  for (float& v : t.span())
    seed = seed * 1664525u + 1013904223u, v = static_cast<float>(seed >> 8) / float(1 << 23) - 1;
  return t;
}

// Constants of the C interface of BLAS.
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

// Few rows: W packed, cold or warm.
void few_rows(GemmBench& run, int64_t m, int64_t n, int64_t k, bool cold) {
  const int64_t bytes = n * k * 4, copies = cold ? (int64_t{80} << 20) / bytes + 2 : 1;
  std::vector<Tensor> plain;
  std::vector<PackedMatrix> packed;
  for (int64_t i = 0; i < copies; ++i) {
    plain.push_back(noise(n * k, 1 + static_cast<uint32_t>(i)));
    packed.push_back(PackedMatrix::pack(run.pool, {plain.back().f32(), DType::kF32, k, 1}, n, k));
  }
  const Tensor x = noise(m * k, 99), y = Tensor::empty({m, n});
  size_t next = 0;
  const auto next_copy = [&] { return next = (next + 1) % plain.size(); };
  run.compare(
      fmt::format("{}x{}x{} {}", m, n, k, cold ? "cold" : "warm"), 2.0 * m * n * k,
      [&] {
        gemm(run.pool, m, {x.f32(), DType::kF32, k, 1}, packed[next_copy()], {y.f32(), n, false, nullptr});
      },
      [&](const bench::Blas& peer) {
        const float* w = plain[next_copy()].f32();
        // For one row a user of BLAS would call the matrix-vector product.
        if (m == 1)
          peer.sgemv(kRowMajor, kNoTranspose, n, k, 1, w, k, x.f32(), 1, 0, y.f32(), 1);
        else
          peer.sgemm(kRowMajor, kNoTranspose, kTranspose, m, n, k, 1, x.f32(), k, w, k, 0, y.f32(), n);
      });
}

void many_rows(GemmBench& run, int64_t m, int64_t n, int64_t k) {
  const Tensor w = noise(n * k, 1), x = noise(m * k, 2), y = noise(m * n, 3), dx = noise(m * k, 4),
               dw = noise(n * k, 5);
  const PackedMatrix packed = PackedMatrix::pack(run.pool, {w.f32(), DType::kF32, k, 1}, n, k);
  const std::string shape = fmt::format("{}x{}x{}", m, n, k);
  const double flops = 2.0 * m * n * k;
  const auto forward = [&](const bench::Blas& peer) {
    peer.sgemm(kRowMajor, kNoTranspose, kTranspose, m, n, k, 1, x.f32(), k, w.f32(), k, 0, y.f32(), n);
  };
  run.compare(
      shape + " packed", flops,
      [&] {
        gemm(run.pool, m, {x.f32(), DType::kF32, k, 1}, packed, {y.f32(), n, false, nullptr});
      },
      forward);
  run.compare(
      shape + " plain", flops,
      [&] {
        gemm(run.pool, m, n, k, {x.f32(), DType::kF32, k, 1}, {w.f32(), DType::kF32, k, 1},
             {y.f32(), n, false, nullptr});
      },
      forward);
  run.compare(
      shape + " dx", flops,
      [&] {
        gemm(run.pool, m, k, n, {y.f32(), DType::kF32, n, 1}, {w.f32(), DType::kF32, 1, k},
             {dx.f32(), k, false, nullptr});
      },
      [&](const bench::Blas& peer) {
        peer.sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, k, n, 1, y.f32(), n, w.f32(), k, 0, dx.f32(), k);
      });
  run.compare(
      shape + " dw", flops,
      [&] {
        gemm(run.pool, n, k, m, {y.f32(), DType::kF32, 1, n}, {x.f32(), DType::kF32, 1, k},
             {dw.f32(), k, true, nullptr});
      },
      [&](const bench::Blas& peer) {
        peer.sgemm(kRowMajor, kTranspose, kNoTranspose, n, k, m, 1, y.f32(), n, x.f32(), k, 1, dw.f32(), k);
      });
}

}  // namespace

int main(int argc, char** argv) {
  bench::RunOptions options;
  if (const auto code =
          bench::parse(options, "bench_gemm",
                       "f32 matrix products at transformer shapes against OpenBLAS and BLIS.", argc, argv))
    return *code;
  ThreadPool pool(static_cast<int>(options.threads));
  const auto peers = bench::load_peers(pool.threads());
  GemmBench run{options, pool, peers, {}};
  if (!options.json) {
    std::printf("%s, %d threads\n%-24s %8s", cpu().isa, pool.threads(), "GFLOP/s", "makar");
    for (const auto& peer : peers) std::printf(" %10s", peer.name.c_str());
    std::printf("   vs. the better peer\n");
  }
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {384, 384}, {1536, 384}, {384, 1536}, {768, 768}, {3072, 768}, {768, 3072}, {2304, 768}, {5632, 2048}};
  const auto selected = [&](int64_t m, int64_t n, int64_t k) {
    const std::string shape = fmt::format("{}x{}x{} ", m, n, k);
    return options.only.empty() || shape.find(options.only) != std::string::npos ||
           options.only.find(shape) != std::string::npos || options.only.find('x') == std::string::npos;
  };
  for (const int64_t m : {1, 8})
    for (const auto& [n, k] : shapes)
      for (const bool cold : {true, false})
        if (selected(m, n, k)) few_rows(run, m, n, k, cold);
  for (const int64_t m : {64, 512})
    for (const auto& [n, k] : shapes)
      if (selected(m, n, k)) many_rows(run, m, n, k);
  if (!options.json && !run.versus_best.empty())
    std::printf("%zu cases: ratio to the better peer %.2f (median), %.2f (worst)\n", run.versus_best.size(),
                bench::median(run.versus_best),
                *std::min_element(run.versus_best.begin(), run.versus_best.end()));
}
