// makar quantize: writes a quantized model as a GGUF file and reports the quality loss.
#include <fmt/format.h>

#include <optional>
#include <set>
#include <tuple>

#include "base/progress.h"
#include "base/quote.h"
#include "cli/first_tokens.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "convert/gguf_model.h"
#include "models/dequantize.h"
#include "models/load.h"
#include "quant/calibrate.h"
#include "quant/encode.h"
#include "quant/mix.h"
#include "quant/report.h"

namespace makar {
namespace {

struct QuantizeCommand {
  std::string from, to, type = "q4_k_m", tokenizer, calibration, report, device = "cpu";
  int64_t calibration_tokens = 16384, report_tokens = 4096, window = 512, threads = 0;
  bool json = false, gptq = false;
};

struct Sizes {
  double bytes = 0, weights = 0;
  double bits() const { return 8 * bytes / weights; }
};
Sizes sizes_of(const GgufModel& model) {
  Sizes s;
  for (const GgufTensorSource& t : model.tensors) {
    s.bytes += static_cast<double>(bytes_of(t.dtype, t.shape.count()));
    s.weights += static_cast<double>(t.shape.count());
  }
  return s;
}

struct Outcome {
  Sizes before, after;
  std::map<std::string, int64_t> types;
  std::optional<Divergence> divergence;
};

// The matrices of the layers with at least 2 zeros in every 4 weights.
Result<std::set<std::string>> sparse_tensors(const QuantizeCommand& c, const GgufModel& model) {
  std::set<std::string> out;
  for (const GgufTensorSource& t : model.tensors) {
    if (!may_be_quantized(t) || t.shape.rank() != 2 || t.name.find("blk.") == std::string::npos) continue;
    MAKAR_TRY(const Tensor values, t.make());
    if (is_two_of_four(dequantized(values))) out.insert(t.name);
  }
  if (out.empty())
    return error_at(c.from,
                    "no matrix has 2 zeros in every 4 weights, which q8_24 stores; makar prune --pattern 2:4 "
                    "makes them");
  return out;
}

Status write(const QuantizeCommand& c, GgufModel& model, ThreadPool& pool, const Calibration* calibration,
             Outcome& out) {
  out.before = sizes_of(model);
  MAKAR_TRY(const Mix mix, Mix::find(c.type, model.fields, model.tensors));
  if (mix.name() == "q8_24") {
    MAKAR_TRY(const auto sparse, sparse_tensors(c, model));
    retype(
        model, [&](const GgufTensorSource& t) { return sparse.contains(t.name) ? DType::kQ8_24 : mix(t); },
        pool, calibration);
  } else {
    retype(model, mix, pool, calibration);
  }
  out.after = sizes_of(model);
  if (out.after.bytes > out.before.bytes)
    fmt::print(
        stderr,
        "makar: warning: the file grows: {} has {:.2f} bits per weight, {} takes {:.2f}, and lost precision "
        "is not restored; quantize the original weights instead\n",
        c.from, out.before.bits(), c.type, out.after.bits());
  for (const GgufTensorSource& t : model.tensors) out.types[name(t.dtype)] += 1;
  model.fields.set("general.file_type", GgufValue::u32(static_cast<uint32_t>(file_type(mix.name()))));
  model.fields.set("general.quantization_version", GgufValue::u32(2));
  Progress progress(c.json);
  for (size_t i = 0; i < model.tensors.size(); ++i)
    model.tensors[i].make = [&progress, i, n = model.tensors.size(), make = model.tensors[i].make] {
      progress.show("quantising", i + 1, n);
      return make();
    };
  return write_gguf(c.to, model.fields, model.tensors);
}

Status quantize(const QuantizeCommand& c, Outcome& out) {
  ThreadPool pool(static_cast<int>(c.threads));
  MAKAR_TRY(const std::unique_ptr<Device> opened, open_device_option(c.device, pool));
  Device& device = *opened;
  MAKAR_TRY(GgufModel model, open_as_gguf(c.from, {c.tokenizer}));
  MAKAR_RETURN_IF_ERROR(Mix::find(c.type, model.fields, model.tensors));  // fail early on an unknown name
  for (const std::string& text : model.warnings) warn(text);
  const std::string tokenizer = c.tokenizer.empty() ? c.from : c.tokenizer;
  // The texts are checked before the file is written.
  std::optional<LoadedModel> original;
  if (!c.calibration.empty() || !c.report.empty()) {
    MAKAR_TRY(original, load_model(c.from));
  }
  std::vector<int64_t> report_ids;
  if (!c.report.empty()) {
    MAKAR_RETURN_IF_ERROR(check_comparable(original->model->spec()));
    MAKAR_TRY(report_ids, first_tokens(tokenizer, c.report, c.report_tokens, original->model->spec()));
  }
  Calibration calibration;
  if (!c.calibration.empty()) {
    MAKAR_TRY(const auto ids,
              first_tokens(tokenizer, c.calibration, c.calibration_tokens, original->model->spec()));
    MAKAR_TRY(calibration, calibrate(*original, ids, device, {c.window, c.gptq}));
  }
  MAKAR_RETURN_IF_ERROR(write(c, model, pool, c.calibration.empty() ? nullptr : &calibration, out));
  if (c.report.empty()) return Done{};
  MAKAR_TRY(const LoadedModel quantized, load_model(c.to));
  original->model->pack(device), quantized.model->pack(device);
  MAKAR_TRY(out.divergence,
            compare_models(*original->model, *quantized.model, report_ids, c.window, device, pool));
  return Done{};
}

void print_json(const QuantizeCommand& c, const Outcome& o) {
  Json out = {{"path", c.to},
              {"type", c.type},
              {"bytes_before", static_cast<int64_t>(o.before.bytes)},
              {"bytes", static_cast<int64_t>(o.after.bytes)},
              {"bits_per_weight_before", o.before.bits()},
              {"bits_per_weight", o.after.bits()},
              {"tensors", o.types}};
  if (const auto& d = o.divergence) {
    out["tokens"] = d->tokens, out["perplexity_before"] = d->perplexity_before;
    out["perplexity"] = d->perplexity_after, out["kl_divergence"] = d->kl, out["top1_agreement"] = d->top1;
  }
  fmt::print("{}\n", out.dump());
}

void print_report(const QuantizeCommand& c, const Outcome& o) {
  constexpr double kMib = 1 << 20;
  std::string types;
  for (const auto& [name, count] : o.types)
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, name);
  fmt::print("{}\n", c.to);
  fmt::print("size          {:.2f} MiB -> {:.2f} MiB ({:.1f} %)\n", o.before.bytes / kMib,
             o.after.bytes / kMib, 100 * o.after.bytes / o.before.bytes);
  fmt::print("bits/weight   {:.2f} -> {:.2f}\n", o.before.bits(), o.after.bits());
  fmt::print("tensors       {}\n", types);
  if (!o.divergence) return;
  const Divergence& d = *o.divergence;
  fmt::print("perplexity    {:.4f} -> {:.4f} ({:+.2f} %), {} tokens\n", d.perplexity_before,
             d.perplexity_after, 100 * (d.perplexity_after / d.perplexity_before - 1), d.tokens);
  fmt::print("KL divergence {:.5f} nats per token\n", d.kl);
  fmt::print("top-1         {:.2f} % agreement\n", 100 * d.top1);
}

}  // namespace

int run_quantize(const std::vector<std::string>& arguments) {
  QuantizeCommand c;
  Options options("quantize", "Quantize a model into a GGUF file, and measure the loss on a text.",
                  "makar quantize MODEL model-q4_k_m.gguf --type q4_k_m --report text.txt");
  declare_model(options, c.from, "FROM");
  options.add("--tokenizer", &c.tokenizer, "tokenizer, if it is not with the model", "PATH");
  options.group("Output");
  auto& output = options.add("-o --output --outfile", &c.to, "GGUF file to write", "FILE");
  output.required = true, output.position = "TO";
  options.add("--type --outtype", &c.type, fmt::format("quantization: {}", fmt::join(mix_names(), ", ")),
              "TYPE");
  options.add("--json", &c.json, "print one JSON object");
  options.group("Quality");
  options.add("--calibrate --imatrix-text", &c.calibration,
              "weight errors by the importance of each column on this text (importance matrix)", "FILE");
  options.add("--calibrate-tokens", &c.calibration_tokens, "number of tokens of that text to use", "N");
  options.add("--gptq", &c.gptq,
              "with --calibrate: GPTQ, which compensates errors in later columns (slower, more memory)");
  options.add("--report", &c.report, "compare with the original model on this text", "FILE");
  options.add("--report-tokens", &c.report_tokens, "number of tokens of that text to use", "N");
  options.add("-c --ctx-size", &c.window, "window length in tokens for both texts", "N");
  declare_threads(options, c.threads);
  declare_device(options, c.device);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (c.gptq && c.type == "q8_24")
    return report(error_at("--gptq", "changes weights that q8_24 needs to be zero; use another type")), 2;
  if (!c.to.ends_with(".gguf")) return report(error_at("TO", "must end with .gguf, got {}", quote(c.to))), 2;
  for (const auto& [flag, value, min] : {std::tuple{"--ctx-size", c.window, 2},
                                         {"--report-tokens", c.report_tokens, 2},
                                         {"--calibrate-tokens", c.calibration_tokens, 1}})
    if (value < min) return report(error_at(flag, "must be {} or more, got {}", min, value)), 2;
  if (c.gptq && c.calibration.empty())
    return report(error_at("--gptq", "needs a text to calibrate on; add --calibrate FILE")), 2;
  c.from = resolve_model(c.from);
  Outcome out;
  if (const Status done = quantize(c, out); !done.ok()) return report(done.error());
  c.json ? print_json(c, out) : print_report(c, out);
  return 0;
}

}  // namespace makar
