// makar prune: removes weights, heads, channels or layers of a model, and measures the loss on a text.
#include "quant/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "cli/first_tokens.h"
#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "models/source.h"
#include "quant/choose_kept_parts.h"
#include "quant/report.h"
#include "train/finish.h"

namespace makar {
namespace {

struct PruneCommand {
  std::string from, to, method = "wanda", pattern, calibration, report, device = "cpu";
  double sparsity = 0.5;
  int64_t layers = 0, kv_heads = 0, ffn = 0, calibration_tokens = 16384, report_tokens = 4096, window = 512,
          threads = 0;
  bool json = false, overwrite = false;
  bool structured() const { return layers > 0 || kv_heads > 0 || ffn > 0; }
};

struct PruneOutcome {
  int64_t before = 0, after = 0;  // parameters
  uint64_t bytes_before = 0, bytes = 0;
  double sparsity = 0;
  std::optional<Divergence> divergence;
};

Result<uint64_t> weight_bytes(const ModelSource& source) {
  MAKAR_TRY(const WeightFiles files, source.weights());
  return files.total_bytes();
}

// The type of the weights: what config.json says, else that of the largest tensor. The pruned model is saved
// in the same type.
Result<DType> file_type(const ModelSource& source) {
  const Json& config = source.config.json();
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto it = config.find(key); it != config.end() && it->is_string())
      return *it == "float16" ? DType::kF16 : *it == "bfloat16" ? DType::kBF16 : DType::kF32;
  MAKAR_TRY(const WeightFiles files, source.weights());
  const TensorFile::Entry* largest = nullptr;
  for (const std::string& name : files.names())
    if (const auto* entry = files.entry(name); !largest || entry->shape.count() > largest->shape.count())
      largest = entry;
  const bool half = largest && (largest->dtype == DType::kF16 || largest->dtype == DType::kBF16);
  return half ? largest->dtype : DType::kF32;
}

Status save(const PruneCommand& c, const LoadedModel& pruned, DType type) {
  MAKAR_RETURN_IF_ERROR(make_folder(c.to));
  for (const auto& p : pruned.model->parameters().all())
    if (p->value.defined()) p->value = p->value.host().to(type);
  MAKAR_RETURN_IF_ERROR(save_model(c.to, *pruned.model, *pruned.family));
  MAKAR_RETURN_IF_ERROR(copy_tokenizer_files(c.from, c.to));
  const std::string name = "/generation_config.json";
  std::error_code ignored;
  std::filesystem::remove(c.to + name, ignored);  // of a model that was there before
  if (!is_file(c.from + name)) return Done{};
  MAKAR_TRY(const std::string bytes, read_file(c.from + name, size_t{1} << 20));
  return write_file(c.to + name, bytes);
}

Result<LoadedModel> apply_pruning(const PruneCommand& c, LoadedModel model, const std::vector<int64_t>& ids,
                                  Device& device, ThreadPool& pool) {
  if (c.structured()) {
    MAKAR_TRY(const Reduction kept_parts,
              choose_kept_parts(model, {c.layers, c.kv_heads, c.ffn, ids, c.window}, device, c.from));
    for (const auto& p : model.model->parameters().all())
      if (p->value.defined()) p->value = p->value.host();
    return reduce_model(model, kept_parts, c.from);
  }
  PruneOptions options;
  options.method = *prune_method_named(c.method);
  options.ids = ids, options.window = c.window;
  if (c.pattern.empty()) {
    options.pattern.share = c.sparsity;
  } else {
    MAKAR_TRY(options.pattern, parse_pattern(c.pattern, "pattern"));
  }
  Progress progress(c.json);
  options.progress = [&](int64_t done, int64_t all) {
    progress.show("pruning layers", static_cast<size_t>(done), static_cast<size_t>(all));
  };
  MAKAR_RETURN_IF_ERROR(prune_model(model, options, device, pool));
  return model;
}

Status prune(const PruneCommand& c, PruneOutcome& out) {
  ThreadPool pool(static_cast<int>(c.threads));
  MAKAR_TRY(const auto compute, open_device_option(c.device, pool));
  Device& device = *compute;
  if (!path_exists(c.from)) return error_of(Error::Kind::kNotFound, c.from, "no such model");
  if (!is_file(c.from + "/config.json"))
    return error_of(
        Error::Kind::kUnsupported, c.from,
        "pruning needs a folder with config.json and safetensors; makar convert writes one from a GGUF "
        "file");
  std::error_code ignored;
  if (std::filesystem::equivalent(c.from, c.to, ignored))
    return error_at(c.to, "is the folder of the model; write to another one, so that nothing is lost");
  if (is_file(c.to + "/config.json") && !c.overwrite)
    return error_at(c.to, "holds a model; use another folder, or --overwrite to replace it");
  MAKAR_TRY(const ModelSource source, ModelSource::open(c.from));
  MAKAR_TRY(const Family* family, find_family(source.config));
  MAKAR_TRY(const ModelSpec spec, family->read(source.config));
  if (!c.report.empty()) MAKAR_RETURN_IF_ERROR(check_comparable(spec));
  std::vector<int64_t> ids;
  if (!c.calibration.empty()) {
    MAKAR_TRY(ids, first_tokens(c.from, c.calibration, c.calibration_tokens, spec));
  }
  std::vector<int64_t> report_ids;
  if (!c.report.empty()) {
    MAKAR_TRY(report_ids, first_tokens(c.from, c.report, c.report_tokens, spec));
  }
  MAKAR_TRY(const DType type, file_type(source));
  MAKAR_TRY(LoadedModel model, load_model(source, {.trainable = true}));
  std::optional<LoadedModel> before;
  if (!c.report.empty()) {
    MAKAR_TRY(before, load_model(source));
  }
  out.before = model.model->parameters().count();
  MAKAR_TRY(out.bytes_before, weight_bytes(source));
  MAKAR_TRY(const LoadedModel pruned, apply_pruning(c, std::move(model), ids, device, pool));
  for (const auto& p : pruned.model->parameters().all())
    if (p->value.defined()) p->value = p->value.host();
  out.after = pruned.model->parameters().count(), out.sparsity = sparsity_of(*pruned.model);
  MAKAR_RETURN_IF_ERROR(save(c, pruned, type));
  MAKAR_TRY(const ModelSource written, ModelSource::open(c.to));
  MAKAR_TRY(out.bytes, weight_bytes(written));
  if (!before) return Done{};
  MAKAR_TRY(const LoadedModel after, load_model(written));
  before->model->pack(device), after.model->pack(device);
  MAKAR_TRY(out.divergence, compare_models(*before->model, *after.model, report_ids, c.window, device, pool));
  return Done{};
}

void print_outcome(const PruneCommand& c, const PruneOutcome& o) {
  const auto& d = o.divergence;
  if (c.json) {
    Json out = {{"path", c.to},
                {"method", c.structured() ? "structured" : c.method},
                {"parameters_before", o.before},
                {"parameters", o.after},
                {"bytes_before", o.bytes_before},
                {"bytes", o.bytes},
                {"sparsity", o.sparsity}};
    if (d) {
      out["tokens"] = d->tokens, out["perplexity_before"] = d->perplexity_before;
      out["perplexity"] = d->perplexity_after, out["kl_divergence"] = d->kl, out["top1_agreement"] = d->top1;
    }
    fmt::print("{}\n", out.dump());
    return;
  }
  constexpr double kMib = 1 << 20;
  fmt::print("{}\n", c.to);
  fmt::print("parameters    {} -> {}\n", o.before, o.after);
  fmt::print("size          {:.2f} MiB -> {:.2f} MiB\n", static_cast<double>(o.bytes_before) / kMib,
             static_cast<double>(o.bytes) / kMib);
  fmt::print("zeros         {:.2f} % of the matrices of the layers\n", 100 * o.sparsity);
  if (!d) return;
  fmt::print("perplexity    {:.4f} -> {:.4f} ({:+.2f} %), {} tokens\n", d->perplexity_before,
             d->perplexity_after, 100 * (d->perplexity_after / d->perplexity_before - 1), d->tokens);
  fmt::print("KL divergence {:.5f} nats per token\n", d->kl);
  fmt::print("top-1         {:.2f} % agreement\n", 100 * d->top1);
}

Status check_command(PruneCommand& c, const Options& options) {
  if (!prune_method_named(c.method))
    return error_at("method", "expected {}, got '{}'{}", fmt::join(prune_method_names(), ", "), c.method,
                    did_you_mean(c.method, prune_method_names()));
  if (!(c.sparsity > 0 && c.sparsity < 1))
    return error_at("sparsity", "expected above 0 and below 1, got {}", c.sparsity);
  if (!c.pattern.empty()) MAKAR_RETURN_IF_ERROR(parse_pattern(c.pattern, "pattern"));
  for (const auto& [key, value] : {std::pair("ctx_size", c.window),
                                   {"calibrate_tokens", c.calibration_tokens},
                                   {"report_tokens", c.report_tokens}})
    if (value < 2) return error_at(key, "expected 2 tokens or more, got {}", value);
  for (const auto& [key, value] : {std::pair("layers", c.layers), {"kv_heads", c.kv_heads}, {"ffn", c.ffn}})
    if (value < 0) return error_at(key, "expected 1 or more, or 0 to keep all, got {}", value);
  const bool unstructured =
      options.given("--method") || options.given("--sparsity") || options.given("--pattern");
  if (c.structured() && unstructured)
    return error_at("method",
                    "--layers, --kv-heads and --ffn remove whole parts; to set weights to zero (--method, "
                    "--sparsity, --pattern), run makar prune again");
  if (options.given("--sparsity") && !c.pattern.empty())
    return error_at("sparsity", "--pattern {} decides the share of zeros; remove one of them", c.pattern);
  if (!c.structured() && c.method != "magnitude" && c.calibration.empty())
    return error_at("calibrate", "{} needs a sample text: --calibrate FILE, or --method magnitude", c.method);
  return Done{};
}

}  // namespace

int run_prune(const std::vector<std::string>& arguments) {
  PruneCommand c;
  Options options(
      "prune",
      "Remove weights of a model: single weights (set to zero), or whole layers, heads and feed-forward "
      "channels, which gives a smaller model. Measures the loss on a text.",
      "makar prune MODEL runs/pruned --pattern 2:4 --calibrate text.txt --report held-out.txt");
  declare_model(options, c.from, "FROM");
  options.group("Output");
  auto& output = options.add("-o --output --output-dir", &c.to, "folder to write", "DIR");
  output.required = true, output.position = "TO";
  options.add("--overwrite", &c.overwrite, "replace a model in that folder");
  options.add("--json", &c.json, "print one JSON object");
  options.group("Unstructured pruning: zeros");
  options.add(
      "--method", &c.method,
      "magnitude (the smallest weights), wanda (weight times the norm of its input), sparsegpt (adjusts "
      "the remaining weights)",
      "NAME");
  options.add("--sparsity", &c.sparsity, "share of the weights of the layers to remove", "X");
  options.add("--pattern", &c.pattern, "set N of every M consecutive weights to zero, such as 2:4", "N:M");
  options.group("Structured pruning: a smaller model");
  options.add("--layers --num-hidden-layers", &c.layers, "number of layers to keep", "N");
  options.add("--kv-heads --num-key-value-heads", &c.kv_heads,
              "number of key/value heads to keep, each with its queries", "N");
  options.add("--ffn --intermediate-size", &c.ffn, "feed-forward channels to keep", "N");
  options.group("Quality");
  options.add("--calibrate", &c.calibration,
              "sample text on which the effect of weights and parts is measured", "FILE");
  options.add("--calibrate-tokens", &c.calibration_tokens, "number of tokens of that text to use", "N");
  options.add("--report", &c.report, "compare with the original model on this text", "FILE");
  options.add("--report-tokens", &c.report_tokens, "number of tokens of that text to use", "N");
  options.add("-c --ctx-size", &c.window, "window length in tokens for both texts", "N");
  declare_threads(options, c.threads);
  declare_device(options, c.device);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_command(c, options); !checked.ok()) return report(checked.error()), 2;
  c.from = resolve_model(c.from);
  PruneOutcome out;
  if (const Status done = prune(c, out); !done.ok()) return report(done.error());
  print_outcome(c, out);
  return 0;
}

}  // namespace makar
