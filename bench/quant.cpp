// Products with quantized weights at Llama shapes, compared with the limits of the machine, measured in the
// same run. Y[m, n] = X[m, k] W[n, k]^T; a case is TYPE MxNxK. One row: GB/s of the stored weights, cycling
// through copies larger than the last-level cache, compared with a plain memory read. More rows: GOP/s
// compared with the peak of 8-bit dot products.
#include <cstdio>

#include "base/rng.h"
#include "bench/run.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/limits.h"

using namespace makar;
using namespace makar::kernels;

namespace {

struct QuantBench {
  const bench::RunOptions& options;
  ThreadPool& pool;
  const MemoryStream& stream;

  std::vector<bench::Times> time(const std::vector<std::function<void()>>& calls) const {
    return options.time(calls, pool.threads());
  }
  // `work` and `limit_work` are billions of bytes or operations per call.
  void report(const std::string& name, const char* unit, const char* peer, double work, double limit_work,
              const std::vector<bench::Times>& times) const {
    const bench::Line line{
        "quant",
        name,
        peer,
        unit,
        pool.threads(),
        work / bench::median(times[0].seconds_per_call),
        limit_work / bench::median(times[1].seconds_per_call),
        bench::spread(times[0].seconds_per_call) + bench::spread(times[1].seconds_per_call),
        times[0].quiet && times[1].quiet};
    if (options.json)
      line.print_json();
    else
      fmt::print("{:<28} {:8.1f} {:<5} {:5.0f} % of {} {:.1f}  +-{:.0f} %{}\n", name, line.makar_value, unit,
                 line.ratio() * 100, peer, line.peer_value, line.spread * 100,
                 line.quiet ? "" : " disturbed");
    std::fflush(stdout);
  }
};

// Random blocks: every byte pattern is valid; the cost does not depend on the size of an f16 scale.
Tensor weights(DType type, int64_t n, int64_t k, uint64_t seed) {
  Tensor w = Tensor::empty({n, k}, type);
  const Rng rng(seed, Purpose::kSynthetic);
  auto* to = reinterpret_cast<uint16_t*>(w.raw());
  for (size_t i = 0; i < w.bytes() / 2; ++i)  // no value read as f16 is infinite or NaN
    to[i] = static_cast<uint16_t>(rng.bits(i)[0] & 0xbbff);
  return w;
}

void run_case(const QuantBench& run, DType type, int64_t m, int64_t n, int64_t k) {
  const std::string name = fmt::format("{} {}x{}x{}", makar::name(type), m, n, k);
  if (!run.options.wants(name)) return;
  const int64_t bytes = static_cast<int64_t>(bytes_of(type, n * k));
  const int64_t copies = m <= 16 ? (int64_t{96} << 20) / bytes + 2 : 1;
  const Tensor w = weights(type, n, k, 7);
  std::vector<PackedMatrix> packed;
  for (int64_t i = 0; i < copies; ++i)
    packed.push_back(PackedMatrix::pack(run.pool, {w.raw(), type, k, 1}, n, k));
  Tensor x = Tensor::empty({m, k}), y = Tensor::empty({m, n});
  const Rng rng(1, Purpose::kSynthetic);
  for (int64_t i = 0; i < x.count(); ++i)
    x.f32()[i] = static_cast<float>(rng.normal(static_cast<uint64_t>(i)));
  size_t next = 0;
  const auto run_product = [&] {
    next = (next + 1) % packed.size();
    gemm(run.pool, m, {x.f32(), DType::kF32, k, 1}, packed[next], {y.f32(), n});
  };
  if (m == 1)
    return run.report(name, "GB/s", "memory", static_cast<double>(bytes) * 1e-9,
                      static_cast<double>(run.stream.bytes()) * 1e-9,
                      run.time({run_product, [&] { run.stream(); }}));
  const double work = 2e-9 * static_cast<double>(m * n * k);
  if (!cpu().peak_int8) return;
  double peak_work = 0;
  const auto peak = [&] { peak_work = run_peak(run.pool, cpu().peak_int8) * 1e-9; };
  const auto times = run.time({run_product, peak});
  run.report(name, "GOP/s", "peak", work, peak_work, times);
}

}  // namespace

int main(int argc, char** argv) {
  bench::RunOptions options;
  options.rounds = 7, options.batch_ms = 20;
  if (const auto code = bench::parse(
          options, "bench_quant", "Products with quantized weights, compared with the limits of the machine.",
          argc, argv))
    return *code;
  ThreadPool pool(static_cast<int>(options.threads));
  const MemoryStream stream(pool, int64_t{256} << 20);
  const QuantBench run{options, pool, stream};
  if (!options.json) fmt::print("{}, {} threads\n", cpu().isa, pool.threads());
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {2048, 2048}, {5632, 2048}, {768, 768}, {3072, 768}, {32000, 768}};
  const DType types[] = {DType::kQ8_0,   DType::kQ4_0, DType::kQ4_K,   DType::kQ6_K,   DType::kF16,
                         DType::kF16_64, DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,   DType::kQ5_K,
                         DType::kQ3_K,   DType::kQ2_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kIQ2_XXS};
  for (const DType type : types)
    for (const int64_t m : {1, 4, 8, 16, 512})
      for (const auto& [n, k] : shapes)
        if (m < 512 || n <= 5632) run_case(run, type, m, n, k);
}
