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

Result<std::vector<int64_t>> text_ids(const PruneCommand& a, const std::string& path, int64_t max) {
  MAKAR_TRY(std::vector<int64_t> ids, first_tokens(a.from, path, max));
  if (ids.size() < 2) return error_at(path, "has {} tokens; a text of some thousands is needed", ids.size());
  return ids;
}

// The bytes of the weight files.
uint64_t weight_bytes(const std::string& folder) {
  uint64_t out = 0;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code))
    if (entry.path().extension() == ".safetensors") out += entry.file_size(code);
  return out;
}

// The type of the weights according to config.json; the pruned model is saved in the same type.
DType file_type(const Json& config) {
  const std::string name = config.value("dtype", config.value("torch_dtype", std::string("float32")));
  return name == "float16" ? DType::kF16 : name == "bfloat16" ? DType::kBF16 : DType::kF32;
}

Status save(const PruneCommand& a, const LoadedModel& pruned, DType type) {
  MAKAR_CHECK_OK(make_folder(a.to));
  for (const auto& p : pruned.model->parameters().all())
    if (p->value.defined()) p->value = p->value.host().to(type);
  MAKAR_CHECK_OK(save_model(a.to, *pruned.model, *pruned.family));
  MAKAR_CHECK_OK(copy_tokenizer_files(a.from, a.to));
  if (const std::string path = a.from + "/generation_config.json"; is_file(path)) {
    MAKAR_TRY(const std::string bytes, read_file(path, size_t{1} << 20));
    MAKAR_CHECK_OK(write_file(a.to + "/generation_config.json", bytes));
  }
  return Done{};
}

Result<LoadedModel> apply_pruning(const PruneCommand& a, LoadedModel model, const std::vector<int64_t>& ids,
                                  Device& device, ThreadPool& pool) {
  if (a.structured()) {
    MAKAR_TRY(const Reduction kept,
              choose_kept_parts(model, {a.layers, a.kv_heads, a.ffn, ids, a.window}, device, a.from));
    for (const auto& p : model.model->parameters().all())
      if (p->value.defined()) p->value = p->value.host();
    return reduce_model(model, kept, a.from);
  }
  PruneOptions options;
  options.method = *prune_method_named(a.method);
  options.ids = ids, options.window = a.window;
  if (a.pattern.empty()) {
    options.pattern.share = a.sparsity;
  } else {
    MAKAR_TRY(options.pattern, parse_pattern(a.pattern, "pattern"));
  }
  Progress progress(a.json);
  options.progress = [&](int64_t done, int64_t all) {
    progress.show("pruning layers", static_cast<size_t>(done), static_cast<size_t>(all));
  };
  MAKAR_CHECK_OK(prune_model(model, options, device, pool));
  return model;
}

Status prune(const PruneCommand& a, PruneOutcome& out) {
  ThreadPool pool(static_cast<int>(a.threads));
  MAKAR_TRY(const auto compute, open_compute(a.device, pool));
  Device& device = *compute;
  if (!is_file(a.from + "/config.json"))
    return error_of(
        Error::Kind::kUnsupported, a.from,
        "pruning needs a folder with config.json and safetensors; makar convert writes one from a GGUF "
        "file");
  if (is_file(a.to + "/config.json") && !a.overwrite)
    return error_at(a.to, "holds a model; use another folder, or --overwrite to replace it");
  std::vector<int64_t> ids;
  if (!a.calibration.empty()) {
    MAKAR_TRY(ids, text_ids(a, a.calibration, a.calibration_tokens));
  }
  std::vector<int64_t> report_ids;
  if (!a.report.empty()) {
    MAKAR_TRY(report_ids, text_ids(a, a.report, a.report_tokens));
  }
  MAKAR_TRY(LoadedModel model, load_model(a.from, {.trainable = true}));
  out.before = model.model->parameters().count();
  const DType type = file_type(model.model->spec().config);
  MAKAR_TRY(const LoadedModel pruned, apply_pruning(a, std::move(model), ids, device, pool));
  for (const auto& p : pruned.model->parameters().all())
    if (p->value.defined()) p->value = p->value.host();
  out.after = pruned.model->parameters().count(), out.sparsity = sparsity_of(*pruned.model);
  MAKAR_CHECK_OK(save(a, pruned, type));
  out.bytes_before = weight_bytes(a.from), out.bytes = weight_bytes(a.to);
  if (a.report.empty()) return Done{};
  MAKAR_TRY(const LoadedModel before, load_model(a.from));
  MAKAR_TRY(const LoadedModel after, load_model(a.to));
  before.model->pack(device), after.model->pack(device);
  MAKAR_TRY(out.divergence, compare_models(*before.model, *after.model, report_ids, a.window, device, pool));
  return Done{};
}

void print_outcome(const PruneCommand& a, const PruneOutcome& o) {
  const auto& d = o.divergence;
  if (a.json) {
    Json out = {{"path", a.to},
                {"method", a.structured() ? "structured" : a.method},
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
  fmt::print("{}\n", a.to);
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

Status check_command(PruneCommand& a, const Options& options) {
  if (!prune_method_named(a.method))
    return error_at("method", "expected {}, got '{}'{}", fmt::join(prune_method_names(), ", "), a.method,
                    did_you_mean(a.method, prune_method_names()));
  if (!(a.sparsity > 0 && a.sparsity < 1))
    return error_at("sparsity", "expected above 0 and below 1, got {}", a.sparsity);
  if (!a.pattern.empty()) MAKAR_CHECK_OK(parse_pattern(a.pattern, "pattern"));
  for (const auto& [key, value] : {std::pair("ctx_size", a.window),
                                   {"calibrate_tokens", a.calibration_tokens},
                                   {"report_tokens", a.report_tokens}})
    if (value < 2) return error_at(key, "expected 2 tokens or more, got {}", value);
  for (const auto& [key, value] : {std::pair("layers", a.layers), {"kv_heads", a.kv_heads}, {"ffn", a.ffn}})
    if (value < 0) return error_at(key, "expected 1 or more, or 0 to keep all, got {}", value);
  const bool unstructured =
      options.given("--method") || options.given("--sparsity") || options.given("--pattern");
  if (a.structured() && unstructured)
    return error_at("method",
                    "--layers, --kv-heads and --ffn remove whole parts; to set weights to zero (--method, "
                    "--sparsity, --pattern), run makar prune again");
  if (options.given("--sparsity") && !a.pattern.empty())
    return error_at("sparsity", "--pattern {} decides the share of zeros; remove one of them", a.pattern);
  if (!a.structured() && a.method != "magnitude" && a.calibration.empty())
    return error_at("calibrate", "{} needs a sample text: --calibrate FILE, or --method magnitude", a.method);
  return Done{};
}

}  // namespace

int run_prune(const std::vector<std::string>& arguments) {
  PruneCommand a;
  Options options("prune",
                  "Remove weights of a model: single ones (zeros), or whole layers, heads and feed-forward "
                  "channels, which gives a smaller model. Measures the loss on a text.",
                  "makar prune MODEL runs/pruned --pattern 2:4 --calibrate text.txt --report held-out.txt");
  declare_model(options, a.from, "FROM");
  options.group("Output");
  auto& output = options.add("-o --output --output-dir", &a.to, "folder to write", "DIR");
  output.required = true, output.position = "TO";
  options.add("--overwrite", &a.overwrite, "replace a model in that folder");
  options.add("--json", &a.json, "print one JSON object");
  options.group("Unstructured pruning: zeros");
  options.add(
      "--method", &a.method,
      "magnitude (the smallest weights), wanda (weight times the norm of its input), sparsegpt (adjusts "
      "the remaining weights)",
      "NAME");
  options.add("--sparsity", &a.sparsity, "share of the weights of the layers to remove", "X");
  options.add("--pattern", &a.pattern, "set N of every M consecutive weights to zero, such as 2:4", "N:M");
  options.group("Structured pruning: a smaller model");
  options.add("--layers --num-hidden-layers", &a.layers, "number of layers to keep", "N");
  options.add("--kv-heads --num-key-value-heads", &a.kv_heads,
              "number of key/value heads to keep, each with its queries", "N");
  options.add("--ffn --intermediate-size", &a.ffn, "feed-forward channels to keep", "N");
  options.group("Quality");
  options.add("--calibrate", &a.calibration,
              "sample text on which the effect of weights and parts is measured", "FILE");
  options.add("--calibrate-tokens", &a.calibration_tokens, "number of tokens of that text to use", "N");
  options.add("--report", &a.report, "compare with the original model on this text", "FILE");
  options.add("--report-tokens", &a.report_tokens, "number of tokens of that text to use", "N");
  options.add("-c --ctx-size", &a.window, "window length in tokens for both texts", "N");
  declare_threads(options, a.threads);
  declare_device(options, a.device);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_command(a, options); !checked.ok()) return report(checked.error()), 2;
  a.from = resolve_model(a.from);
  PruneOutcome out;
  if (const Status done = prune(a, out); !done.ok()) return report(done.error());
  print_outcome(a, out);
  return 0;
}

}  // namespace makar
