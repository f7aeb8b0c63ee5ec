#include "cli/train_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/version.h"
#include "cli/run.h"
#include "ops/linear.h"
#include "train/lr_find.h"
#include "train/svg.h"

namespace makar {
namespace {

std::atomic<bool> stop_asked{false};

void on_signal(int) {
  if (stop_asked.exchange(true)) _exit(130);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::lround(std::min(seconds, 1e9)));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rate_text(double rate) {
  return rate >= 1e6   ? fmt::format("{:.1f}M", rate / 1e6)
         : rate >= 1e3 ? fmt::format("{:.1f}k", rate / 1e3)
                       : fmt::format("{:.0f}", rate);
}

std::string step_line(const StepInfo& i, double peak) {
  std::string out = fmt::format("step {}/{} | loss {:.3f}", i.step, i.total, i.loss);
  if (i.tokens_are_targets) out += fmt::format(" | ppl {:.1f}", std::exp(std::min(i.loss, 50.0)));
  out += fmt::format(" | norm {:.2f} | lr {:.1e} | {:.1f} ms | {} tok/s", i.norm, i.lr, i.seconds * 1e3,
                     rate_text(static_cast<double>(i.tokens) / i.seconds));
  if (peak > 0) out += fmt::format(" | {:.0f}% peak", 100 * i.flops / i.seconds / peak);
  return out + " | eta " + clock_text(i.eta);
}

// The lines of a run: a bar redrawn on a terminal, plain lines in a pipe.
class Printer {
 public:
  Printer(bool quiet, int64_t every, double peak)
      : quiet_(quiet), terminal_(isatty(STDERR_FILENO)), every_(every), peak_(peak) {}
  void step(const StepInfo& i) {
    if (quiet_) return;
    if (!terminal_) {
      if (i.step % every_ == 0 || i.step == 1 || i.step == i.total)
        fmt::print(stderr, "{}\n", step_line(i, peak_));
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100) && i.step < i.total) return;
    last_ = now;
    const auto full = static_cast<size_t>(20.0 * static_cast<double>(i.step) / static_cast<double>(i.total));
    fmt::print(stderr, "\r\033[K[{}{}] {}", std::string(full, '='), std::string(20 - full, ' '),
               step_line(i, peak_));
    std::fflush(stderr);
    open_ = true;
  }
  void line(const std::string& text) {
    if (quiet_) return;
    if (open_) fmt::print(stderr, "\n");
    open_ = false;
    fmt::print(stderr, "{}\n", text);
  }
  ~Printer() {
    if (open_) fmt::print(stderr, "\n");
  }

 private:
  bool quiet_, terminal_;
  int64_t every_;
  double peak_;
  bool open_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Whether the folder was prepared from the same files in the same way.
bool is_prepared(const std::string& folder, const PrepareOptions& o, const std::string& tokenizer_sum,
                 const Json& wanted) {
  const auto manifest = read_json(folder + "/manifest.json");
  const auto how = read_json(folder + "/prepared_from.json");
  return manifest.ok() && how.ok() && *how == wanted && manifest->is_object() &&
         manifest->value("tokenizer_sha256", "") == tokenizer_sum &&
         manifest->value("end_of_document", int64_t{-2}) == o.end_of_document;
}

}  // namespace

void say(const TrainCommon& common, const std::string& text) {
  if (!common.quiet) fmt::print(stderr, "{}\n", text);
}

void declare_common(Options& o, TrainCommon& c) {
  declare_loop(o, c.loop);
  o.add("-d --datasets --dataset --data", &c.datasets,
        "a file, folder or prepared folder, with ,type=NAME and ,weight=X where wanted; repeat for a mixture",
        "PATH");
  o.add("--val-datasets --val-data", &c.val_datasets,
        "data to validate on, instead of a part of the training data", "PATH");
  o.add("--val-set-size", &c.val_set_size, "the share kept for validation", "X");
  o.add("--val-split", &c.val_split, "hash: documents by their content; tail: the last tokens", "NAME");
  o.add("--lr-find", &c.lr_find,
        "instead of a run: raise the learning rate from step to step and suggest one (writes lr_find.svg)");
  o.add("--lr-find-steps", &c.lr_find_steps, "steps of that", "N");
  o.add("-t --threads", &c.threads, "0: one for each core", "N");
  o.add("-q --quiet", &c.quiet, "no progress");
  o.add("--json", &c.json, "print the result as JSON");
}

std::optional<int> parse_training(Options& options, const std::vector<std::string>& arguments,
                                  TrainCommon& common) {
  const auto expanded = expand_recipe(arguments, options);
  if (!expanded.ok()) return report(expanded.error()), 2;
  if (const auto code = parse_or_exit(options, *expanded)) return code;
  const auto bad = [](const Error& e) { return report(e), 2; };
  if (const Status s = check_loop(common.loop); !s.ok()) return bad(s.error());
  if (!(common.val_set_size >= 0 && common.val_set_size < 1))
    return bad(error_at("val_set_size", "expected a share from 0 to 1, got {}", common.val_set_size));
  if (common.val_split != "hash" && common.val_split != "tail")
    return bad(error_at("val_split", "expected hash or tail, got '{}'", common.val_split));
  if (common.threads < 0 || common.threads > 256)
    return bad(error_at("threads", "expected 0 to 256, got {}", common.threads));
  if (common.datasets.empty()) return bad(error_at("datasets", "no data is given; try: --datasets FILE"));
  if (common.loop.overwrite && !common.lr_find) {
    std::error_code code;
    for (const std::string& folder : checkpoints(common.loop.output_dir))
      std::filesystem::remove_all(folder, code);
  }
  return std::nullopt;
}

const std::atomic<bool>& stop_on_signal() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return stop_asked;
}

LoopEvents printed_events(const TrainCommon& common, double peak) {
  auto printer = std::make_shared<Printer>(common.quiet, common.loop.logging_steps, peak);
  LoopEvents e;
  e.step = [printer](const StepInfo& i) { printer->step(i); };
  e.validation = [printer](int64_t step, const Metrics& metrics) {
    std::string text = fmt::format("step {} | validation", step);
    for (const auto& [name, value] : metrics) text += fmt::format(" | {} {:.4f}", name, value);
    printer->line(text);
  };
  e.sample = [printer](int64_t step, const std::string& text) {
    printer->line(fmt::format("step {} | sample:\n{}", step, text));
  };
  e.say = [printer](const std::string& text) { printer->line(text); };
  return e;
}

double measure_peak(ThreadPool& pool) {
  Context ctx{pool};
  const Tensor x = Tensor::full({512, 512}, 0.5f), w = Tensor::full({512, 512}, 0.25f);
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ops::linear(ctx, x, w);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * 512 * 512 * 512 / seconds);
  }
  return best;
}

void say_prepared(const TrainCommon& common, const std::string& path, const Prepared& p) {
  say(common, fmt::format("{}: {} documents, {} tokens for training, {} for validation (schema: {})", path,
                          p.documents + p.validation_documents, p.tokens, p.validation_tokens, p.schema));
  if (p.bad.count == 0) return;
  say(common, fmt::format("{} records could not be used:", p.bad.count));
  for (const std::string& line : p.bad.told) say(common, "  " + line);
}

Status open_sources(const TrainCommon& common, const Tokenizer& tokenizer, int64_t end_of_document,
                    ThreadPool& pool, std::vector<Source>& sources, std::vector<TokenStore>& validation,
                    Json& identity) {
  const std::string tokenizer_sum = sha256_of(tokenizer.to_json().dump() + "\n");
  const auto open_one = [&](const std::string& text, bool held_out, size_t number) -> Status {
    MAKAR_TRY(const DatasetSpec spec, parse_dataset(text));
    std::string folder = spec.path;
    if (!TokenStore::has(spec.path, "train")) {
      PrepareOptions o;
      o.paths = {spec.path};
      o.folder = folder =
          fmt::format("{}/data/{}{}", common.loop.output_dir, held_out ? "validation-" : "", number);
      o.end_of_document = end_of_document;
      o.validation = held_out || !common.val_datasets.empty() ? 0 : common.val_set_size;
      o.validation_at_end = common.val_split == "tail";
      MAKAR_TRY(const std::string files, fingerprint(o.paths));
      const Json how = {{"files", files},
                        {"path", spec.path},
                        {"validation", o.validation},
                        {"at_end", o.validation_at_end}};
      if (!is_prepared(folder, o, tokenizer_sum, how)) {
        MAKAR_TRY(const Prepared prepared, prepare_tokens(tokenizer, pool, o));
        MAKAR_CHECK_OK(write_file(folder + "/prepared_from.json", how.dump() + "\n"));
        say_prepared(common, spec.path, prepared);
        if (o.validation > 0 && prepared.validation_tokens == 0)
          say(common,
              "no document fell into the validation part; val_split=tail takes the last tokens instead");
      }
    }
    MAKAR_TRY(const std::string sum, sha256_of_file(folder + "/manifest.json"));
    identity["data"].push_back(sum);
    MAKAR_TRY(TokenStore train, TokenStore::open(folder, "train"));
    if (train.vocab() > static_cast<int64_t>(tokenizer.vocab_size()))
      return error_at(folder, "was prepared with a tokenizer of {} tokens; this one has {}", train.vocab(),
                      tokenizer.vocab_size());
    if (held_out) {
      validation.push_back(std::move(train));
      return Done{};
    }
    sources.push_back({spec.path, std::move(train), spec.weight});
    if (common.val_datasets.empty() && TokenStore::has(folder, "validation")) {
      MAKAR_TRY(TokenStore v, TokenStore::open(folder, "validation"));
      validation.push_back(std::move(v));
    }
    return Done{};
  };
  identity["tokenizer"] = tokenizer_sum;
  for (size_t i = 0; i < common.datasets.size(); ++i) MAKAR_CHECK_OK(open_one(common.datasets[i], false, i));
  for (size_t i = 0; i < common.val_datasets.size(); ++i)
    MAKAR_CHECK_OK(open_one(common.val_datasets[i], true, i));
  return Done{};
}

namespace {

int run_search(const Loop& loop, const TrainCommon& common) {
  const auto found = find_rate(loop, {common.lr_find_steps});
  if (!found.ok()) return report(found.error());
  Curve raw{"loss", {}, {}}, smooth{"smoothed", {}, {}};
  for (size_t i = 0; i < found->rates.size(); ++i)
    raw.add(std::log10(found->rates[i]), found->losses[i]),
        smooth.add(std::log10(found->rates[i]), found->smoothed[i]);
  const std::string picture = common.loop.output_dir + "/lr_find.svg";
  if (const Status s = make_folder(common.loop.output_dir); !s.ok()) return report(s.error());
  const auto svg = svg_chart("loss by the decimal logarithm of the learning rate", {raw, smooth});
  if (const Status s = write_file(picture, svg); !s.ok()) return report(s.error());
  if (common.json) {
    const Json out = {{"suggestion", found->steepest}, {"lowest", found->lowest},     {"rates", found->rates},
                      {"losses", found->losses},       {"smoothed", found->smoothed}, {"picture", picture}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("{:>13}  {:>10}  {:>10}\n", "learning rate", "loss", "smoothed");
  const size_t every = std::max<size_t>(1, found->rates.size() / 20);
  for (size_t i = 0; i < found->rates.size(); i += every)
    fmt::print("{:>13.2e}  {:>10.4f}  {:>10.4f}\n", found->rates[i], found->losses[i], found->smoothed[i]);
  fmt::print("suggested: learning_rate {:.1e}, where the loss falls fastest (it is lowest at {:.1e}); {}\n",
             found->steepest, found->lowest, picture);
  return 0;
}

}  // namespace

int run_job(const TrainJob& job) {
  const TrainCommon& common = job.common;
  std::string sample;
  LoopEvents events = printed_events(common, measure_peak(job.pool));
  const auto show = events.sample;
  events.sample = [&](int64_t step, const std::string& text) {
    sample = text;
    show(step, text);
  };
  const Loop loop{*job.loaded.model, job.task,    common.loop, job.pool, events,
                  &stop_on_signal(), job.identity};
  if (common.lr_find) return run_search(loop, common);
  const auto result = run_loop(loop);
  if (!result.ok()) return report(result.error());
  if (result->interrupted) {
    fmt::print(stderr, "stopped at step {}; the same command goes on from {}/checkpoint-{}\n", result->steps,
               common.loop.output_dir, result->steps);
    return 0;
  }
  Json run = {{"makar", kMakarVersion},      {"threads", job.pool.threads()}, {"identity", job.identity},
              {"datasets", common.datasets}, {"seconds", result->seconds},    {"tokens", result->tokens}};
  FinishedRun finished{job.loaded,  job.adapter, job.tokenizer, job.tokenizer_folder,
                       job.kind,    common.loop, *result,       run,
                       job.command, sample,      job.eos};
  if (const Status s = finish_run(finished); !s.ok()) return report(s.error());
  if (common.json) {
    const Json out = {
        {"output_dir", common.loop.output_dir}, {"steps", result->steps},     {"loss", result->last_loss},
        {"validation", result->validation},     {"seconds", result->seconds}, {"tokens", result->tokens}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} steps in {:.1f} s, loss {:.4f}", common.loop.output_dir, result->steps,
               result->seconds, result->last_loss);
    for (const auto& [name, value] : result->validation) fmt::print(", validation {} {:.4f}", name, value);
    fmt::print("\n");
  }
  return 0;
}

std::string command_line(const std::string& name, const std::vector<std::string>& arguments) {
  std::string out = "makar " + name;
  for (const std::string& word : arguments) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                            "-_=./,:@+%") == std::string::npos;
    std::string quoted;
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += plain ? " " + word : " '" + quoted + "'";
  }
  return out;
}

}  // namespace makar
