#include "cli/train_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

#include "base/file.h"
#include "base/version.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "models/adapter.h"
#include "quant/rounding.h"
#include "train/lr_find.h"
#include "train/svg.h"

namespace makar {
namespace {

std::atomic<bool> stop_requested{false};

// Only a second Ctrl-C ends the process at once. A program that stops this one may send SIGTERM twice (the
// server of a fine-tuning job to the process group, and the kernel when the server has ended): the run still
// stores its checkpoint.
void on_signal(int number) {
  if (stop_requested.exchange(true) && number == SIGINT) _exit(130);
}

}  // namespace

void say(const TrainCommon& common, const std::string& text) {
  if (!common.quiet) fmt::print(stderr, "{}\n", text);
}

DatasetOptions dataset_options(const TrainCommon& common) {
  return {common.datasets,        common.val_datasets,
          common.val_set_size,    common.val_split == "tail",
          common.loop.output_dir, [&common](const std::string& text) { say(common, text); }};
}

void print_trained_parameters(const TrainCommon& common, const Model& model) {
  int64_t trained = 0, total = 0;
  for (const auto& p : model.parameters().all()) {
    if (p->buffer) continue;
    total += p->shape.count();
    if (p->trainable) trained += p->shape.count();
  }
  say(common,
      fmt::format("training {} of {} parameters ({:.4g} %)", trained, total,
                  100.0 * static_cast<double>(trained) / static_cast<double>(std::max<int64_t>(1, total))));
}

void declare_common(Options& o, TrainCommon& c) {
  declare_loop(o, c.loop);
  o.group("Data");
  o.add("-d --datasets --dataset --data", &c.datasets,
        "file, folder or prepared folder, optionally with ,type=NAME ,weight=X and names of columns "
        "(,text=review,label=stars); repeat for a mixture",
        "PATH");
  o.add("--val-datasets --val-data", &c.val_datasets,
        "data to validate on, instead of a part of the training data", "PATH");
  o.add("--val-set-size", &c.val_set_size, "share of the data kept for validation", "X");
  o.add(
      "--val-split", &c.val_split,
      "how validation data is chosen: hash (documents by a hash of their content) or tail (the last tokens)",
      "NAME");
  o.group("Learning rate search");
  o.add("--lr-find", &c.lr_find,
        "instead of a run: raise the learning rate step by step and suggest one (writes lr_find.svg)");
  o.add("--lr-find-steps", &c.lr_find_steps, "steps of --lr-find", "N");
  o.group("Output");
  o.add("-q --quiet", &c.quiet, "print no progress");
  o.add("--json", &c.json, "print the result as JSON");
  o.add("--prices", &c.price_file,
        "price table (JSON: currency, input, hour, watts, kwh); adds the cost of the run to the report",
        "FILE");
  declare_threads(o, c.threads);
  declare_device(o, c.device);
}

std::optional<int> parse_training(Options& options, const std::vector<std::string>& arguments,
                                  TrainCommon& common) {
  const auto expanded = expand_recipe(arguments, options);
  if (!expanded.ok()) return report(expanded.error()), 2;
  if (const auto code = parse_or_exit(options, *expanded)) return code;
  const auto usage_error = [](const Error& e) { return report(e), 2; };
  if (const Status s = check_loop(common.loop); !s.ok()) return usage_error(s.error());
  if (!(common.val_set_size >= 0 && common.val_set_size < 1))
    return usage_error(
        error_at("val_set_size", "expected at least 0 and below 1, got {}", common.val_set_size));
  if (common.val_split != "hash" && common.val_split != "tail")
    return usage_error(error_at("val_split", "expected hash or tail, got '{}'", common.val_split));
  if (common.threads < 0 || common.threads > 256)
    return usage_error(error_at("threads", "expected 0 to 256, got {}", common.threads));
  if (!common.price_file.empty()) {
    const auto read = read_price_table(common.price_file);
    if (!read.ok()) return usage_error(read.error());
    common.prices = *read;
  }
  if (common.datasets.empty())
    return usage_error(error_at("datasets", "no data is given; try: --datasets FILE"));
  auto lock = RunLock::take(common.loop.output_dir);
  if (!lock.ok()) return report(lock.error());
  common.lock.emplace(std::move(*lock));
  return std::nullopt;
}

void declare_qat(Options& o, TrainCommon& c) {
  o.group("Objective");
  o.add(
      "--qat --quantization-aware", &c.qat,
      "quantization-aware training: weights are rounded to this type in the forward pass (q4_0, q8_0, ...); "
      "then makar quantize --type loses less",
      "TYPE");
}

Result<RoundWeight> open_qat(const TrainCommon& common, Model& model, bool adapter, ThreadPool& pool,
                             Json& identity) {
  if (common.qat.empty()) return RoundWeight();
  MAKAR_TRY(const DType type, rounding_type(common.qat));
  if (adapter)
    return error_of(
        Error::Kind::kUnsupported, "qat",
        "rounds trained weights, but an adapter leaves its base unchanged; use --quantize-base to "
        "quantize the base");
  identity["qat"] = common.qat;
  return RoundWeight(rounding_of(model, type, pool));
}

Status check_f32(const TrainCommon& common, const std::string& command) {
  if (!common.loop.bf16) return Done{};
  return error_of(Error::Kind::kUnsupported, "bf16",
                  "{} trains in f32 only; remove --bf16 (pretrain, sft, dpo and grpo have it)", command);
}

const std::atomic<bool>& stop_on_signal() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return stop_requested;
}

namespace {

int find_learning_rate(const Loop& loop, const TrainCommon& common) {
  const auto search = find_rate(loop, {common.lr_find_steps});
  if (!search.ok()) return report(search.error());
  Curve raw{"loss", {}, {}}, smooth{"smoothed", {}, {}};
  for (size_t i = 0; i < search->rates.size(); ++i)
    raw.add(std::log10(search->rates[i]), search->losses[i]),
        smooth.add(std::log10(search->rates[i]), search->smoothed[i]);
  const std::string picture = common.loop.output_dir + "/lr_find.svg";
  if (const Status s = make_folder(common.loop.output_dir); !s.ok()) return report(s.error());
  const auto svg =
      svg_chart("loss by the decimal logarithm of the learning rate", {raw, smooth}, XAxis::kNumbers);
  if (const Status s = write_file(picture, svg); !s.ok()) return report(s.error());
  if (common.json) {
    const Json out = {{"suggestion", search->steepest}, {"lowest", search->lowest},
                      {"rates", search->rates},         {"losses", search->losses},
                      {"smoothed", search->smoothed},   {"picture", picture}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("{:>13}  {:>10}  {:>10}\n", "learning rate", "loss", "smoothed");
  const size_t every = std::max<size_t>(1, search->rates.size() / 20);
  for (size_t i = 0; i < search->rates.size(); i += every)
    fmt::print("{:>13.2e}  {:>10.4f}  {:>10.4f}\n", search->rates[i], search->losses[i], search->smoothed[i]);
  fmt::print("suggested: learning_rate {:.1e}, where the loss falls fastest (it is lowest at {:.1e}); {}\n",
             search->steepest, search->lowest, picture);
  return 0;
}

// The same command has already run to its end: nothing to do.
int print_finished_before(const TrainCommon& common) {
  const std::string& folder = common.loop.output_dir;
  const auto run = read_json(folder + "/run.json");
  const auto value = [&](const char* key) {
    return run.ok() && run->is_object() ? run->value(key, Json()) : Json();
  };
  if (common.json) {
    const Json out = {{"output_dir", folder},
                      {"finished_before", true},
                      {"steps", value("steps")},
                      {"loss", value("loss")},
                      {"validation", value("validation")}};
    fmt::print("{}\n", out.dump());
  } else {
    const Json steps = value("steps");
    fmt::print("{}: finished already ({}); nothing to do. --overwrite trains it again\n", folder,
               with_plural(steps.is_number_unsigned() ? steps.get<uint64_t>() : 0, "step"));
  }
  return 0;
}

void print_trained(const TrainCommon& common, const LoopResult& result, const Json& run,
                   const std::string& cost) {
  if (common.json) {
    Json out = {
        {"output_dir", common.loop.output_dir}, {"steps", result.steps},     {"loss", result.last_loss},
        {"validation", result.validation},      {"seconds", result.seconds}, {"tokens", result.tokens}};
    if (common.prices) out["cost"] = run.at("cost");
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}: {} in {:.1f} s, loss {:.4f}", common.loop.output_dir,
               with_plural(static_cast<uint64_t>(result.steps), "step"), result.seconds, result.last_loss);
    for (const auto& [name, value] : result.validation) fmt::print(", validation {} {:.4f}", name, value);
    fmt::print("{}{}\n", cost.empty() ? "" : ", ", cost);
  }
}

}  // namespace

int run_job(const TrainJob& job) {
  const TrainCommon& common = job.common;
  if (!common.val_datasets.empty() && job.task.validation_batches() == 0)
    return report(error_at("val_datasets", "no record of {} can be used for validation",
                           fmt::join(common.val_datasets, ", ")));
  std::string sample;
  std::function<void()> end_line;
  LoopEvents events = printed_events(common, measure_peak(job.device), end_line);
  const auto print_sample = events.sample;
  events.sample = [&](int64_t step, const std::string& text) {
    sample = text;
    print_sample(step, text);
  };
  std::vector<TrainedModel> models = {{job.loaded.model.get()}};
  models.insert(models.end(), job.others.begin(), job.others.end());
  const Loop loop{TrainedModels(std::move(models)),
                  job.task,
                  common.loop,
                  job.device,
                  events,
                  &stop_on_signal(),
                  job.identity,
                  job.round};
  if (common.lr_find) return find_learning_rate(loop, common);
  const auto result = run_loop(loop);
  end_line();
  if (!result.ok()) return report(result.error());
  if (result->finished_before) return print_finished_before(common);
  if (result->interrupted) {
    fmt::print(stderr, "stopped at step {}; the same command resumes from {}/checkpoint-{}\n", result->steps,
               common.loop.output_dir, result->steps);
    return 0;
  }
  if (job.merge) merge_adapter(job.loaded, job.device);
  Json run = {{"makar", kMakarVersion},
              {"threads", job.device.threads()},
              {"datasets", common.datasets},
              {"seconds", result->seconds},
              {"tokens", result->tokens}};
  std::string cost;
  if (common.prices) {
    const Cost spent = cost_of(*common.prices, result->tokens, 0, result->seconds);
    cost = cost_text(*common.prices, spent);
    run["cost"] = {{"currency", common.prices->currency}, {"money", spent.money}, {"joules", spent.joules}};
  }
  FinishedRun finished{job.loaded,        job.adapter, job.tokenizer,  job.tokenizer_folder,
                       job.kind,          common.loop, *result,        run,
                       job.command,       sample,      job.base_model, job.tokenizer_config,
                       job.chat_template, cost};
  if (const Status s = finish_run(finished); !s.ok()) return report(s.error());
  if (job.save_others)
    if (const Status s = job.save_others(); !s.ok()) return report(s.error());
  print_trained(common, *result, run, cost);
  return 0;
}

std::string command_line(const std::string& name, const std::vector<std::string>& arguments) {
  std::string out = "makar " + name;
  for (const std::string& word : arguments) {
    const bool needs_no_quotes =
        !word.empty() && word.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-_=./,:@+%") == std::string::npos;
    std::string quoted;
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += needs_no_quotes ? " " + word : " '" + quoted + "'";
  }
  return out;
}

}  // namespace makar
