// The kernels of a decoding step on a GPU, with the shapes of TinyLlama 1.1B: microseconds and bytes per
// second of each, run one after another as a recording over weights that do not fit into the cache, and of
// the layers of a whole step.
//
// usage: bench_decode_kernels [ROWS | VARIABLE=VALUE]...
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "base/rng.h"
#include "kernels/device.h"
#include "tensor/tensor.h"

using namespace makar;
using kernels::Bf16;

namespace {

constexpr int64_t kWidth = 2048, kInner = 5632, kHeads = 32, kKvHeads = 4, kDim = 64, kVocab = 32000,
                  kLayers = 22, kContext = 192;

struct Layer {
  std::shared_ptr<const kernels::PackedWeight> q, k, v, o, gate, up, down;
};

class Bench {
 public:
  Bench(Device& device, int64_t rows) : device_(device), rows_(rows) {
    const Tensor values = random({kInner, kWidth});
    const auto weight = [&](int64_t n, int64_t k) {
      return device.pack({values.address(), DType::kBF16, k, 1}, n, k);
    };
    for (int64_t i = 0; i < kLayers; ++i)
      layers_.push_back({weight(kWidth, kWidth), weight(256, kWidth), weight(256, kWidth),
                         weight(kWidth, kWidth), weight(kInner, kWidth), weight(kInner, kWidth),
                         weight(kWidth, kInner)});
    const Tensor vocabulary = random({kVocab, kWidth});
    head_ = device.pack({vocabulary.address(), DType::kBF16, kWidth, 1}, kVocab, kWidth);
    x_ = f32({rows, kWidth}), y_ = f32({rows, kWidth}), stats_ = f32({rows}), norm_ = f32({kWidth});
    normed_ = random({rows, kWidth}), q_ = random({rows, kWidth}), k_ = random({rows, 256}),
    v_ = random({rows, 256});
    mixed_ = random({rows, kWidth}), gate_ = random({rows, kInner}), up_ = random({rows, kInner}),
    inner_ = random({rows, kInner});
    cos_ = f32({rows, kDim / 2}), sin_ = f32({rows, kDim / 2}), logits_ = random({rows, kVocab});
    chosen_ = Tensor::zeros({rows}, DType::kI64, device.memory());
    const int64_t pages = (kContext + kernels::kKeyTile - 1) / kernels::kKeyTile,
                  tile = kernels::key_tile_bytes(DType::kBF16, kDim);
    std::vector<int64_t> table;
    std::vector<kernels::SequenceRows> sequences;
    for (int64_t i = 0; i < rows; ++i) {
      sequences.push_back({i, 1, 0, kContext, kContext - 1, i * pages});
      for (int64_t p = 0; p < pages; ++p) {
        pages_.push_back(random({kLayers * 2 * kKvHeads * tile / 2}));
        table.push_back(reinterpret_cast<int64_t>(pages_.back().address()));
      }
    }
    table_ = upload(table);
    sequences_ = upload({reinterpret_cast<const int64_t*>(sequences.data()), sequences.size() * 6});
  }

  void qkv(const Layer& l) {
    const kernels::PackedProductBf16 products[] = {
        {l.q.get(), b(q_), nullptr}, {l.k.get(), b(k_), nullptr}, {l.v.get(), b(v_), nullptr}};
    const kernels::NormBf16 norm = norm_of(x_);
    kernels::FusedProductsBf16 a{{rows_, b(normed_), products, 3}};
    a.norm = &norm;
    device_.fused_products_bf16(a);
  }
  void attention(int64_t layer) {
    const int64_t tile = kernels::key_tile_bytes(DType::kBF16, kDim), at = layer * 2 * kKvHeads * tile;
    kernels::AttentionShape s{};
    s.sequences = reinterpret_cast<const kernels::SequenceRows*>(sequences_.address());
    s.count = s.total_q_rows = rows_, s.max_q_rows = 1, s.max_kv_rows = kContext;
    s.heads = kHeads, s.kv_heads = kKvHeads, s.head_dim = kDim, s.causal = true, s.scale = 0.125f;
    device_.decode_attention_bf16({s,
                                   b(q_),
                                   b(k_),
                                   b(v_),
                                   DType::kBF16,
                                   cos_.f32_address(),
                                   sin_.f32_address(),
                                   kDim,
                                   false,
                                   {reinterpret_cast<const std::byte* const*>(table_.address()), at, tile,
                                    at + kKvHeads * tile, tile, DType::kBF16, DType::kBF16},
                                   b(mixed_)});
  }
  void add(const kernels::PackedWeight& w, const Tensor& from, const Tensor& residual, const Tensor& sum) {
    const kernels::PackedProductBf16 product{&w, b(normed_), nullptr};
    kernels::FusedProductsBf16 a{{rows_, b(from), &product, 1}};
    a.residual = residual.f32_address(), a.sum = sum.f32_address();
    device_.fused_products_bf16(a);
  }
  void gate(const Layer& l) {
    const kernels::PackedProductBf16 products[] = {{l.gate.get(), b(gate_), nullptr},
                                                   {l.up.get(), b(up_), nullptr}};
    const kernels::NormBf16 norm = norm_of(y_);
    kernels::FusedProductsBf16 a{{rows_, b(normed_), products, 2}};
    a.norm = &norm, a.gated = b(inner_);
    device_.fused_products_bf16(a);
  }
  void head() {
    const kernels::PackedProductBf16 product{head_.get(), b(logits_), nullptr};
    device_.gemm_packed_bf16({rows_, b(mixed_), &product, 1});
  }
  void arg_max() {
    device_.arg_max(
        {logits_.address(), DType::kBF16, reinterpret_cast<int64_t*>(chosen_.address()), rows_, kVocab});
  }

  // Runs `work` for every layer in a recording; reports microseconds per call.
  void time(const std::string& name, double bytes, int64_t calls, const std::function<void()>& work) {
    work();
    const auto recorded = device_.record(work);
    recorded->run();
    device_.finish();
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      constexpr int kRuns = 10;
      for (int i = 0; i < kRuns; ++i) recorded->run();
      device_.finish();
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kRuns);
    }
    best /= static_cast<double>(calls);
    fmt::print("rows {:3} {:<10} {:8.2f} us {:8.0f} GB/s\n", rows_, name, best * 1e6, bytes / best * 1e-9);
    std::fflush(stdout);
  }

  void run() {
    const double mb = 2.0 * kWidth * kWidth;
    const auto each = [&](const std::function<void(const Layer&, int64_t)>& f) {
      return [&, f] {
        for (int64_t i = 0; i < kLayers; ++i) f(layers_[static_cast<size_t>(i)], i);
      };
    };
    const double qkv_bytes = mb * 1.25, inner_bytes = 2.0 * kInner * kWidth;
    time("qkv", qkv_bytes, kLayers, each([&](const Layer& l, int64_t) { qkv(l); }));
    time("attention", 4.0 * static_cast<double>(rows_) * kContext * kKvHeads * kDim, kLayers,
         each([&](const Layer&, int64_t i) { attention(i); }));
    time("o", mb, kLayers, each([&](const Layer& l, int64_t) { add(*l.o, mixed_, x_, y_); }));
    time("gate", 2 * inner_bytes, kLayers, each([&](const Layer& l, int64_t) { gate(l); }));
    time("down", inner_bytes, kLayers, each([&](const Layer& l, int64_t) { add(*l.down, inner_, y_, x_); }));
    time("norm", 1, 22, [&] {
      for (int i = 0; i < 22; ++i) device_.norm_bf16(norm_of(x_));
    });
    time("head", 2.0 * kVocab * kWidth, 1, [&] { head(); });
    time("arg_max", 2.0 * static_cast<double>(rows_) * kVocab, 1, [&] { arg_max(); });
    const double all = kLayers * (qkv_bytes + mb + 3 * inner_bytes) + 2.0 * kVocab * kWidth;
    time("step", all, 1, [&] {
      for (int64_t i = 0; i < kLayers; ++i) {
        const Layer& l = layers_[static_cast<size_t>(i)];
        qkv(l), attention(i), add(*l.o, mixed_, x_, y_), gate(l), add(*l.down, inner_, y_, x_);
      }
      head(), arg_max();
    });
  }

 private:
  static Bf16* b(const Tensor& t) { return reinterpret_cast<Bf16*>(t.address()); }
  kernels::NormBf16 norm_of(const Tensor& x) {
    return {true,    x.f32_address(), norm_.f32_address(),
            nullptr, b(normed_),      stats_.f32_address(),
            rows_,   kWidth,          1e-5f,
            0.0f};
  }
  Tensor host_random(const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    const Rng rng(++seed_, Purpose::kSynthetic);
    const int64_t distinct = std::min<int64_t>(t.count(), 1 << 18);
    for (int64_t i = 0; i < distinct; ++i)
      t.f32()[i] = 0.02f * (2 * rng.uniform(static_cast<uint64_t>(i)) - 1);
    for (int64_t i = distinct; i < t.count(); ++i) t.f32()[i] = t.f32()[i - distinct];
    return t;
  }
  Tensor random(const Shape& shape) { return host_random(shape).to(DType::kBF16).to(device_.memory()); }
  Tensor f32(const Shape& shape) { return host_random(shape).to(device_.memory()); }
  Tensor upload(std::span<const int64_t> v) {
    return Tensor::from({static_cast<int64_t>(v.size())}, v).to(device_.memory());
  }

  Device& device_;
  int64_t rows_;
  uint64_t seed_ = 0;
  std::vector<Layer> layers_;
  std::shared_ptr<const kernels::PackedWeight> head_;
  Tensor x_, y_, stats_, norm_, normed_, q_, k_, v_, mixed_, gate_, up_, inner_, cos_, sin_, logits_, chosen_,
      table_, sequences_;
  std::vector<Tensor> pages_;
};

}  // namespace

int main(int argc, char** argv) {
  auto device = open_device("cuda");
  if (!device.ok()) return fmt::print(stderr, "{}\n", device.error().text()), 1;
  std::map<int64_t, std::unique_ptr<Bench>> benches;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (const size_t at = text.find('='); at != text.npos) {
      fmt::print("{}\n", text);
      setenv(text.substr(0, at).c_str(), text.substr(at + 1).c_str(), 1);
      continue;
    }
    auto& bench = benches[std::atoll(argv[i])];
    if (!bench) bench = std::make_unique<Bench>(**device, std::atoll(argv[i]));
    bench->run();
  }
  return 0;
}
