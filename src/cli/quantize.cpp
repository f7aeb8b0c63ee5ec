// makar quantize: a model in fewer bits, as a GGUF file, with a report of what was lost.
#include <fmt/format.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/run.h"
#include "models/load.h"
#include "quant/calibrate.h"
#include "quant/gguf_model.h"
#include "quant/mix.h"
#include "quant/report.h"
#include "text/tokenizer.h"

namespace makar {
namespace {

struct Asked {
  std::string from, to, type = "q4_k_m", tokenizer, calibration, report;
  int64_t calibration_tokens = 16384, report_tokens = 4096, window = 512, threads = 0;
  bool json = false;
};

// The first `most` tokens of a text, with the token that starts a text where the model has one.
Result<std::vector<int64_t>> read_ids(const std::string& tokenizer, const std::string& path, int64_t most) {
  MAKAR_TRY(const Tokenizer t, Tokenizer::load(tokenizer));
  MAKAR_TRY(std::string text, read_file(path));
  // A token is seldom longer than 16 bytes: what cannot be used is not encoded.
  if (text.size() > static_cast<size_t>(most) * 16) text.resize(static_cast<size_t>(most) * 16);
  EncodeOptions options;
  options.offsets = false, options.add_special = true;
  MAKAR_TRY(const Encoding encoding, t.encode(text, options));
  std::vector<int64_t> ids(encoding.ids.begin(), encoding.ids.end());
  if (static_cast<int64_t>(ids.size()) > most) ids.resize(static_cast<size_t>(most));
  return ids;
}

struct Sizes {
  double bytes = 0, weights = 0;
  double bits() const { return 8 * bytes / weights; }
};
Sizes sizes_of(const GgufModel& model) {
  Sizes s;
  for (const GgufSource& t : model.tensors) {
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

Status write(const Asked& a, GgufModel& model, ThreadPool& pool, const Importance* importance, Outcome& out) {
  out.before = sizes_of(model);
  MAKAR_TRY(const Mix mix, Mix::find(a.type, model));
  retype(model, mix, pool, importance);
  out.after = sizes_of(model);
  for (const GgufSource& t : model.tensors) out.types[name(t.dtype)] += 1;
  model.fields.set("general.file_type", GgufValue::u32(static_cast<uint32_t>(file_type(mix.name()))));
  model.fields.set("general.quantization_version", GgufValue::u32(2));
  Progress progress(a.json);
  for (size_t i = 0; i < model.tensors.size(); ++i)
    model.tensors[i].make = [&progress, i, n = model.tensors.size(), make = model.tensors[i].make] {
      progress.show("quantising", i + 1, n);
      return make();
    };
  return write_gguf(a.to, model.fields, model.tensors);
}

Status quantize(const Asked& a, Outcome& out) {
  ThreadPool pool(static_cast<int>(a.threads));
  MAKAR_TRY(GgufModel model, open_as_gguf(a.from, {a.tokenizer}));
  MAKAR_CHECK_OK(Mix::find(a.type, model));  // a wrong name is told before any work
  for (const std::string& w : model.warnings) fmt::print(stderr, "makar: warning: {}\n", w);
  const std::string tokenizer = a.tokenizer.empty() ? a.from : a.tokenizer;
  Calibration calibration;
  if (!a.calibration.empty()) {
    MAKAR_TRY(const auto ids, read_ids(tokenizer, a.calibration, a.calibration_tokens));
    MAKAR_TRY(const LoadedModel loaded, load_model(a.from));
    MAKAR_TRY(calibration, calibrate(loaded, ids, pool, {a.window}));
  }
  MAKAR_CHECK_OK(write(a, model, pool, a.calibration.empty() ? nullptr : &calibration.importance, out));
  if (a.report.empty()) return Done{};
  MAKAR_TRY(const auto ids, read_ids(tokenizer, a.report, a.report_tokens));
  MAKAR_TRY(const LoadedModel before, load_model(a.from));
  MAKAR_TRY(const LoadedModel after, load_model(a.to));
  before.model->pack(pool), after.model->pack(pool);
  MAKAR_TRY(out.divergence, compare_models(*before.model, *after.model, ids, a.window, pool));
  return Done{};
}

void print_json(const Asked& a, const Outcome& o) {
  Json out = {{"path", a.to},
              {"type", a.type},
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

void print_report(const Asked& a, const Outcome& o) {
  constexpr double kMib = 1 << 20;
  std::string types;
  for (const auto& [name, count] : o.types)
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, name);
  fmt::print("{}\n", a.to);
  fmt::print("size          {:.2f} MiB -> {:.2f} MiB ({:.1f} %)\n", o.before.bytes / kMib,
             o.after.bytes / kMib, 100 * o.after.bytes / o.before.bytes);
  fmt::print("bits a weight {:.2f} -> {:.2f}\n", o.before.bits(), o.after.bits());
  fmt::print("tensors       {}\n", types);
  if (!o.divergence) return;
  const Divergence& d = *o.divergence;
  fmt::print("perplexity    {:.4f} -> {:.4f} ({:+.2f} %), {} tokens\n", d.perplexity_before,
             d.perplexity_after, 100 * (d.perplexity_after / d.perplexity_before - 1), d.tokens);
  fmt::print("KL divergence {:.5f} nats a token\n", d.kl);
  fmt::print("top-1         {:.2f} % the same\n", 100 * d.top1);
}

}  // namespace

int run_quantize(const std::vector<std::string>& arguments) {
  Asked a;
  Options options("quantize", "A model in fewer bits, as a GGUF file, and what that loses on a text.",
                  "makar quantize MODEL model-q4_k_m.gguf --type q4_k_m --report text.txt");
  options.positional("FROM", &a.from, "a Hugging Face folder, a GGUF file, or a llama2.c checkpoint (.bin)");
  options.positional("TO", &a.to, "the GGUF file to write");
  options.add("--type", &a.type, fmt::format("{}", fmt::join(mix_names(), ", ")), "TYPE");
  options.add("--tokenizer", &a.tokenizer, "tokenizer, where it does not lie with the model", "PATH");
  options.add("--calibrate --imatrix-text", &a.calibration,
              "weigh errors by how much each column matters on this text (an importance matrix)", "FILE");
  options.add("--calibrate-tokens", &a.calibration_tokens, "how much of it", "N");
  options.add("--report", &a.report, "compare with the original on this text", "FILE");
  options.add("--report-tokens", &a.report_tokens, "how much of it", "N");
  options.add("-c --ctx-size", &a.window, "tokens of a window, for both texts", "N");
  options.add("-t --threads", &a.threads, "threads; 0 means all cores", "N");
  options.add("--json", &a.json, "print one JSON object");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (!a.to.ends_with(".gguf") || a.window < 2 || a.report_tokens < 2 || a.calibration_tokens < 1) {
    fmt::print(stderr,
               "makar: TO must end with .gguf, -c and --report-tokens be at least 2, --calibrate-tokens 1\n");
    return 2;
  }
  Outcome out;
  if (const Status done = quantize(a, out); !done.ok()) return report(done.error());
  a.json ? print_json(a, out) : print_report(a, out);
  return 0;
}

}  // namespace makar
