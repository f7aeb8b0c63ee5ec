// Several adapters on one model: summed with weights, or selected per row.
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/file.h"
#include "base/quote.h"
#include "models/adapter.h"

namespace makar {

Status AdapterSet::load(const std::string& folder) {
  use(std::vector<float>(adapters_.size(), 0.0f));
  MAKAR_TRY(const AdapterConfig config, read_adapter_config(folder));
  if (config.dora || !config.modules_to_save.empty())
    return error_of(
        Error::Kind::kUnsupported, folder,
        "an adapter with {} must be used alone and with weight 1; merge it into the base first (makar merge)",
        config.dora ? "DoRA's magnitudes" : "modules_to_save");
  MAKAR_RETURN_IF_ERROR(load_adapter(loaded_, folder, device_));
  std::vector<AdaptedLinear> adapted;
  loaded_.model->each_linear([&](const std::string&, Linear& linear) {
    const Adapter* a = linear.adapter();
    if (!a) return;
    adapted.push_back({&linear, a->a->value, a->b->value, a->scale});
  });
  for (const AdaptedLinear& p : adapted) p.linear->detach();
  adapters_.push_back(std::move(adapted));
  return Done{};
}

namespace {

// The rows of all matrices A: [sum of ranks, in].
Tensor stack_rows(const std::vector<Tensor>& parts) {
  int64_t rank = 0;
  for (const Tensor& t : parts) rank += t.dim(0);
  Tensor out = Tensor::empty({rank, parts[0].dim(1)});
  float* to = out.f32();
  for (const Tensor& t : parts) to = std::copy_n(t.host().f32(), t.count(), to);
  return out;
}

// The columns of all matrices B, each times its factor: [out, sum of ranks].
Tensor join_columns(const std::vector<Tensor>& parts, const std::vector<float>& factors) {
  int64_t rank = 0;
  for (const Tensor& t : parts) rank += t.dim(1);
  Tensor out = Tensor::empty({parts[0].dim(0), rank});
  float* to = out.f32();
  std::vector<Tensor> on_host;
  for (const Tensor& t : parts) on_host.push_back(t.host());
  for (int64_t row = 0; row < out.dim(0); ++row)
    for (size_t i = 0; i < parts.size(); ++i)
      for (int64_t c = 0; c < parts[i].dim(1); ++c)
        *to++ = factors[i] * on_host[i].f32()[row * parts[i].dim(1) + c];
  return out;
}

}  // namespace

void AdapterSet::use(const std::vector<float>& weights) {
  check(weights.size() == adapters_.size(), "use() needs one weight per adapter");
  struct Sum {
    std::vector<Tensor> a, b;
    std::vector<float> factors;
  };
  std::unordered_map<Linear*, Sum> sums;
  for (size_t i = 0; i < adapters_.size(); ++i)
    for (const AdaptedLinear& p : adapters_[i]) {
      p.linear->detach();
      if (weights[i] == 0.0f) continue;
      Sum& sum = sums[p.linear];
      sum.a.push_back(p.a), sum.b.push_back(p.b), sum.factors.push_back(p.scale * weights[i]);
    }
  ParameterSet& set = loaded_.model->parameters();
  for (auto& [linear, sum] : sums) {
    const std::string prefix = "adapter.sum." + linear->weight()->name;
    auto adapter = std::make_shared<Adapter>();
    const auto put = [&](const char* end, const Tensor& value) {
      Parameter* p = set.find(prefix + end);
      if (!p) p = set.add(prefix + end, value.shape());
      p->shape = value.shape(), p->value = value.to(device_.memory()), p->trainable = false;
      return p;
    };
    const bool single = sum.a.size() == 1;  // the adapter is used as it was loaded
    adapter->a = put(".a", single ? sum.a[0] : stack_rows(sum.a));
    adapter->b = put(".b", single ? sum.b[0] : join_columns(sum.b, sum.factors));
    adapter->scale = single ? sum.factors[0] : 1.0f;
    linear->attach(std::move(adapter));
  }
}

void AdapterSet::add_row_adapters() {
  ParameterSet& set = loaded_.model->parameters();
  for (size_t i = 0; i < adapters_.size(); ++i)
    for (const AdaptedLinear& p : adapters_[i]) {
      const std::string prefix = fmt::format("adapter.row.{}.{}", i, p.linear->weight()->name);
      const auto put = [&](const char* end, const Tensor& value) {
        Parameter* parameter = set.add(prefix + end, value.shape());
        parameter->value = value, parameter->trainable = false;
        return parameter;
      };
      p.linear->add_row_adapter(
          i, std::make_shared<Adapter>(Adapter{put(".a", p.a), put(".b", p.b), nullptr, p.scale}));
    }
}

Status load_adapters(const LoadedModel& loaded, const std::vector<std::string>& choices, Device& device) {
  std::vector<std::string> folders;
  std::vector<float> weights;
  for (const std::string& choice : choices) {
    folders.push_back(choice), weights.push_back(1.0f);
    // A colon may be part of a path; it separates a weight only if no folder has the full name.
    const size_t colon = choice.rfind(':');
    if (colon == choice.npos || is_folder(choice)) continue;
    const char* begin = choice.c_str() + colon + 1;
    char* end = nullptr;
    weights.back() = std::strtof(begin, &end);
    if (end == begin || *end || !std::isfinite(weights.back()))
      return error_at(choice, "expected FOLDER or FOLDER:WEIGHT; {} is not a number", quote(begin));
    folders.back().resize(colon);
  }
  if (choices.size() == 1 && weights[0] == 1.0f) {
    MAKAR_RETURN_IF_ERROR(load_adapter(loaded, folders[0], device));
    return Done{};
  }
  AdapterSet set(loaded, device);
  for (const std::string& folder : folders) MAKAR_RETURN_IF_ERROR(set.load(folder));
  set.use(weights);
  return Done{};
}

}  // namespace makar
