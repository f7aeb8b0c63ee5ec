#include "eval/runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "eval/sandbox.h"
#include "text/unicode.h"

namespace makar {
namespace {

class TaskRun {
 public:
  TaskRun(EvalModel& model, const EvalTask& task, const EvalOptions& options, EvalCache& cache)
      : model_(model), task_(task), o_(options), cache_(cache), identity_(model.identity().dump()) {}

  Result<TaskResult> run(const SubTask& subtask) {
    TaskResult out;
    out.name = subtask.name.empty() ? task_.name : task_.name + "_" + subtask.name;
    out.group = subtask.group, out.config = task_.config, out.version = task_.version;
    out.shots = o_.num_fewshot >= 0 ? o_.num_fewshot : task_.num_fewshot;
    if (task_.output == OutputType::kRolling) out.shots = 0;
    if (task_.runs_programs() && !o_.run_programs)
      return error_of(
          Error::Kind::kUnsupported, out.name,
          "runs programs that the model writes, in a sandbox; allow it with --confirm-run-unsafe-code");
    if (const Status runs = check_languages(); !runs.ok()) return runs.error().in(out.name);
    auto data = read_eval_data(task_, subtask.name, o_.data);
    if (!data.ok()) return data.error().in(out.name);
    out.documents = data->test.size();
    out.evaluated = o_.limit > 0 ? std::min(out.documents, static_cast<size_t>(o_.limit)) : out.documents;
    values_.assign(task_.filters.size() * task_.metrics.size(), {});
    lowest_.assign(values_.size(), std::nullopt);
    // Batches grow while each takes less than two seconds, so that a killed run loses little work even with a
    // slow model. The scores do not depend on the batches.
    size_t batch = std::min<size_t>(o_.batch, 8);
    for (size_t begin = 0, end = 0; begin < out.evaluated; begin = end) {
      end = std::min(out.evaluated, begin + batch);
      const auto start = std::chrono::steady_clock::now();
      const Status status = run_batch(*data, begin, end, out);
      if (!status.ok()) return status.error().in(out.name);
      if (o_.progress) o_.progress(out.name, end, out.evaluated);
      if (std::chrono::steady_clock::now() - start < std::chrono::seconds(2))
        batch = std::min(o_.batch, 2 * batch);
    }
    for (size_t f = 0; f < task_.filters.size(); ++f)
      for (size_t m = 0; m < task_.metrics.size(); ++m) {
        const MetricInfo& metric = task_metric(task_.output, task_.metrics[m].name);
        out.scores.push_back({task_.metrics[m].title(), task_.filters[f].name,
                              aggregate(metric, values_[f * task_.metrics.size() + m]),
                              metric.higher_is_better, metric.aggregation == Aggregation::kMean});
      }
    return out;
  }

 private:
  Status check_languages() const {
    for (const MetricOptions& metric : task_.metrics)
      if (!metric.program.empty()) MAKAR_RETURN_IF_ERROR(check_language(metric.language));
    return Done{};
  }
  Status run_batch(const EvalData& data, size_t begin, size_t end, TaskResult& out) {
    std::vector<Question> questions;
    std::vector<std::string> keys;
    std::vector<size_t> missing;  // questions without cached responses
    for (size_t i = begin; i < end; ++i) {
      auto question = make_question(task_, data, i, out.shots, o_.seed, o_.style);
      if (!question.ok()) return question.error().in(fmt::format("document {}", i));
      keys.push_back(key_of(*question));
      questions.push_back(std::move(*question));
      if (!cache_.find(keys.back())) missing.push_back(i - begin);
    }
    MAKAR_RETURN_IF_ERROR(compute_missing(questions, keys, missing, begin));
    for (size_t i = 0; i < questions.size(); ++i)
      MAKAR_RETURN_IF_ERROR(score(begin + i, data, questions[i], *cache_.find(keys[i]), out));
    return Done{};
  }

  // As in lm-eval, the answer in a conversation begins without the delimiter.
  std::string delimiter(const Question& question) const {
    return question.messages.is_null() ? task_.target_delimiter : "";
  }

  std::vector<std::string> continuations(const Question& question) const {
    if (task_.output == OutputType::kMultipleChoice) {
      std::vector<std::string> all;
      for (const std::string& choice : question.choices) all.push_back(delimiter(question) + choice);
      return all;
    }
    if (task_.output == OutputType::kLoglikelihood) return {delimiter(question) + question.targets[0]};
    return {};
  }

  // A hash of the model's identity and of all requests for the question.
  std::string key_of(const Question& question) const {
    Sha256 sum;
    const auto add = [&](const std::string& part) {
      sum.add(fmt::format("{}:", part.size())), sum.add(part);
    };
    add(identity_), add(name(task_.output)), add(question.context);
    for (const std::string& one : continuations(question)) add(one);
    if (!question.messages.is_null()) add(question.messages.dump());
    for (const std::string& turn : question.turns) add("turn"), add(turn);
    if (task_.output == OutputType::kRolling) add(question.targets[0]);
    if (task_.output == OutputType::kGenerate) {
      for (const std::string& stop : task_.until) add(stop);
      add(fmt::format("{} {} {} {}", task_.max_gen_toks, task_.temperature, task_.top_p, o_.seed));
      if (task_.repeats > 1) add(fmt::format("repeats {}", task_.repeats));
    }
    return sum.hex();
  }

  // Computes the responses that the cache lacks, in one batch, and adds them to the cache.
  Status compute_missing(const std::vector<Question>& questions, const std::vector<std::string>& keys,
                         const std::vector<size_t>& missing, size_t first) {
    if (missing.empty()) return Done{};
    std::vector<size_t> owner;  // the question of each request
    std::vector<Result<Json>> answers;
    const auto append = [&](const auto& results, const auto& to_json) {
      for (const auto& one : results)
        if (one.ok())
          answers.emplace_back(to_json(*one));
        else
          answers.emplace_back(one.error());
    };
    const auto likelihood = [](const Loglikelihood& one) {
      return Json::array({one.logprob, one.is_greedy});
    };
    if (task_.output == OutputType::kRolling) {
      std::vector<std::string> texts;
      for (const size_t q : missing) texts.push_back(questions[q].targets[0]), owner.push_back(q);
      append(model_.loglikelihood_rolling(texts), likelihood);
    } else if (task_.output == OutputType::kGenerate) {
      return generate_turns(questions, keys, missing, first);
    } else {
      std::vector<LikelihoodRequest> requests;
      for (const size_t q : missing)
        for (std::string& one : continuations(questions[q])) {
          requests.push_back({questions[q].context, std::move(one), questions[q].messages});
          owner.push_back(q);
        }
      append(model_.loglikelihood(requests), likelihood);
    }
    check(answers.size() == owner.size(), "a model returns one result per request");
    for (size_t i = 0; i < answers.size();) {
      Json responses = Json::array();
      const size_t question = owner[i];
      for (; i < answers.size() && owner[i] == question; ++i) {
        if (!answers[i].ok()) return answers[i].error().in(fmt::format("document {}", first + question));
        responses.push_back(*answers[i]);
      }
      MAKAR_RETURN_IF_ERROR(cache_.add(keys[question], responses));
    }
    return cache_.flush();
  }

  // Generated answers: one per turn of a conversation, or `repeats` of one question.
  Status generate_turns(const std::vector<Question>& questions, const std::vector<std::string>& keys,
                        std::vector<size_t> missing, size_t first) {
    std::vector<std::vector<std::string>> answers(questions.size());
    std::vector<Question> prompts = questions;  // with the turns so far
    for (size_t turn = 0; !missing.empty(); ++turn) {
      std::vector<UntilRequest> requests;
      std::vector<size_t> owner;
      for (const size_t q : missing)
        for (int64_t r = 0; r < task_.repeats; ++r) {
          requests.push_back({prompts[q].context, task_.until, task_.max_gen_toks, task_.temperature,
                              task_.top_p, o_.seed + static_cast<uint64_t>(r), prompts[q].messages});
          owner.push_back(q);
        }
      const auto results = model_.generate_until(requests);
      check(results.size() == owner.size(), "a model returns one result per request");
      for (size_t i = 0; i < results.size(); ++i) {
        if (!results[i].ok()) return results[i].error().in(fmt::format("document {}", first + owner[i]));
        answers[owner[i]].push_back(to_valid_utf8(*results[i]));
      }
      std::vector<size_t> unfinished;
      for (const size_t q : missing) {
        if (turn == questions[q].turns.size()) {
          MAKAR_RETURN_IF_ERROR(cache_.add(keys[q], answers[q]));
          continue;
        }
        unfinished.push_back(q);
        const std::string& next = questions[q].turns[turn];
        prompts[q].context += answers[q].back() + task_.fewshot_delimiter + next;
        if (!prompts[q].messages.is_null()) {
          prompts[q].messages.push_back({{"role", "assistant"}, {"content", answers[q].back()}});
          prompts[q].messages.push_back({{"role", "user"}, {"content", to_valid_utf8(next)}});
        }
      }
      missing = std::move(unfinished);
    }
    return cache_.flush();
  }

  // Whether cached responses have the form that the task expects; the cache file may have been edited.
  bool has_expected_form(const Question& question, const Json& responses) const {
    const size_t count = task_.output == OutputType::kMultipleChoice
                             ? question.choices.size()
                             : static_cast<size_t>(task_.repeats) + question.turns.size();
    if (responses.size() != count) return false;
    return std::all_of(responses.begin(), responses.end(), [&](const Json& one) {
      if (task_.output == OutputType::kGenerate) return one.is_string();
      return one.is_array() && one.size() == 2 && one[0].is_number() && one[1].is_boolean();
    });
  }

  // For a metric with `all_of`: sets `value` to the lowest of consecutive documents with the same key, and
  // returns true at the last of them. A run whose last document is beyond --limit has no value.
  Result<bool> ends_run(const MetricOptions& metric, const EvalData& data, size_t index, size_t slot,
                        std::optional<MetricValue>& value) {
    if (metric.all_of.empty()) return value.has_value();
    MAKAR_TRY(const Json run, metric.all_of.value(data.test[index]));
    if (value && (!lowest_[slot] || value->value < lowest_[slot]->value)) lowest_[slot] = value;
    if (index + 1 < data.test.size()) {
      MAKAR_TRY(const Json next, metric.all_of.value(data.test[index + 1]));
      if (next == run) return false;
    }
    value = std::exchange(lowest_[slot], {});
    return value.has_value();
  }

  Status score(size_t index, const EvalData& data, const Question& question, const Json& responses,
               TaskResult& out) {
    const Json& document = data.test[index];
    if (!has_expected_form(question, responses))
      return error_at(fmt::format("document {}", index),
                      "the cached responses do not have the form of {}; delete the cache to start again",
                      name(task_.output));
    for (size_t f = 0; f < task_.filters.size(); ++f) {
      Json filtered = responses;
      if (task_.output == OutputType::kGenerate) {
        MAKAR_TRY(filtered, filter_answers(task_.filters[f], responses.get<std::vector<std::string>>()));
      }
      Json metrics = Json::object();
      for (size_t m = 0; m < task_.metrics.size(); ++m) {
        auto value = document_metric(task_.metrics[m], task_.output, question, filtered, document);
        if (!value.ok()) return value.error().in(fmt::format("document {}", index));
        const size_t slot = f * task_.metrics.size() + m;
        const auto ends = ends_run(task_.metrics[m], data, index, slot, *value);
        if (!ends.ok()) return ends.error().in(fmt::format("document {}", index));
        if (!*ends) continue;
        values_[slot].push_back(**value);
        metrics[task_.metrics[m].title()] = (*value)->json();
      }
      if (o_.samples)
        out.samples.push_back(sample(index, document, question, responses, filtered, f, metrics));
    }
    return Done{};
  }

  // A line of lm-eval's samples file.
  Json sample(size_t index, const Json& document, const Question& question, const Json& responses,
              const Json& filtered, size_t filter, const Json& metrics) const {
    Json arguments = Json::object();
    size_t number = 0;
    const auto add = [&](Json one) { arguments[fmt::format("gen_args_{}", number++)] = std::move(one); };
    const Json context = question.messages.is_null() ? Json(question.context) : question.messages;
    for (const std::string& one : continuations(question)) add({{"arg_0", context}, {"arg_1", one}});
    if (task_.output == OutputType::kRolling) add({{"arg_0", question.targets[0]}});
    if (task_.output == OutputType::kGenerate)
      add({{"arg_0", context},
           {"arg_1",
            {{"until", task_.until},
             {"max_gen_toks", task_.max_gen_toks},
             {"temperature", task_.temperature}}}});
    Json resps = Json::array();
    for (const Json& one : responses) resps.push_back(Json::array({one}));
    Json names = Json::array();
    for (const auto& item : metrics.items()) names.push_back(item.key());
    Json out = {{"doc_id", index},
                {"doc", document},
                {"target", question.target},
                {"arguments", arguments},
                {"resps", resps},
                {"filtered_resps", filtered},
                {"filter", task_.filters[filter].name},
                {"metrics", names},
                {"doc_hash", sha256_of(document.dump())},
                {"prompt_hash", sha256_of(question.context)},
                {"target_hash", sha256_of(question.target.dump())}};
    out.update(metrics);
    return out;
  }

  EvalModel& model_;
  const EvalTask& task_;
  const EvalOptions& o_;
  EvalCache& cache_;
  std::string identity_;
  std::vector<std::vector<MetricValue>> values_;    // by filter and metric
  std::vector<std::optional<MetricValue>> lowest_;  // of documents with the same key, for metrics with all_of
};

}  // namespace

Result<std::vector<TaskResult>> run_task(EvalModel& model, const EvalTask& task, const EvalOptions& options,
                                         EvalCache& cache) {
  std::vector<TaskResult> out;
  TaskRun run(model, task, options, cache);
  std::vector<SubTask> subtasks = task.subtasks;
  if (subtasks.empty()) subtasks.push_back({});
  for (const SubTask& subtask : subtasks) {
    MAKAR_TRY(TaskResult result, run.run(subtask));
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace makar
