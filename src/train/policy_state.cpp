// The state of a policy task in checkpoints: the answers of the last rollout, with their rewards, advantages
// and values.
#include <cmath>

#include "train/policy_task.h"

namespace makar {
namespace {

Error damaged(const char* what) {
  return error_at("checkpoint",
                  "the state of the rollout is damaged: {}; use another output_dir, or --overwrite", what);
}

Result<int64_t> read_integer(const Json& values, const char* key) {
  const auto it = values.find(key);
  if (it == values.end() || !it->is_number_integer()) return damaged(key);
  return it->get<int64_t>();
}

Result<std::vector<double>> numbers(const Json& values, const char* key) {
  const auto it = values.find(key);
  if (it == values.end() || !it->is_array()) return damaged(key);
  std::vector<double> out;
  for (const Json& v : *it) {
    if (!v.is_number()) return damaged(key);
    out.push_back(v.get<double>());
  }
  return out;
}

Result<Rollout> read_rollout(const Json& json, int64_t vocab) {
  Rollout out;
  if (!json.is_object()) return damaged("rollouts");
  const auto tokens = json.find("tokens");
  if (tokens == json.end() || !tokens->is_array()) return damaged("tokens");
  for (const Json& id : *tokens) {
    if (!id.is_number_integer()) return damaged("tokens");
    out.tokens.push_back(id.get<int64_t>());
    if (out.tokens.back() < 0 || out.tokens.back() >= vocab) return damaged("tokens");
  }
  MAKAR_TRY(const int64_t prompt, read_integer(json, "prompt"));
  MAKAR_TRY(out.prompt_tokens, read_integer(json, "prompt_tokens"));
  MAKAR_TRY(const int64_t stopped, read_integer(json, "stopped"));
  if (prompt < 0 || out.prompt_tokens < 1 || out.prompt_tokens >= static_cast<int64_t>(out.tokens.size()))
    return damaged("prompt_tokens");
  out.prompt = static_cast<size_t>(prompt), out.finish = stopped ? Finish::kStop : Finish::kLength;
  return out;
}

}  // namespace

TaskState PolicyTask::state() const {
  TaskState out;
  Json rollouts = Json::array();
  std::vector<float> sampled;
  for (const Rollout& r : buffer_.rollouts) {
    rollouts.push_back({{"prompt", r.prompt},
                        {"tokens", r.tokens},
                        {"prompt_tokens", r.prompt_tokens},
                        {"stopped", r.finish == Finish::kStop ? 1 : 0}});
    sampled.insert(sampled.end(), r.log_probabilities.begin(), r.log_probabilities.end());
  }
  out.values = {{"left", left_},
                {"collected_at", collected_at_},
                {"collections", collections_},
                {"rewards", buffer_.rewards},
                {"means", means_},
                {"difference", difference_},
                {"rollouts", std::move(rollouts)},
                {"moved", {sums_.sampler_kl, sums_.tokens}}};
  const auto add = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty())
      out.tensors[name] = Tensor::from({static_cast<int64_t>(values.size())}, std::span<const float>(values));
  };
  add("sampled", sampled), add("reference", buffer_.reference), add("advantages", buffer_.advantages);
  add("values", buffer_.values), add("returns", buffer_.returns);
  add_state(out);
  return out;
}

Status PolicyTask::restore(const TaskState& state) {
  if (!state.values.is_object()) return damaged("it is missing");
  PolicyBuffer buffer;
  MAKAR_TRY(left_, read_integer(state.values, "left"));
  MAKAR_TRY(const int64_t at, read_integer(state.values, "collected_at"));
  MAKAR_TRY(const int64_t collections, read_integer(state.values, "collections"));
  if (left_ < 0 || left_ > o_.steps() || at < 0 || collections < 0) return damaged("left");
  collected_at_ = static_cast<uint64_t>(at), collections_ = static_cast<uint64_t>(collections);
  MAKAR_TRY(buffer.rewards, numbers(state.values, "rewards"));
  MAKAR_TRY(means_, numbers(state.values, "means"));
  MAKAR_TRY(const auto sampler_kl, numbers(state.values, "moved"));
  const auto difference = state.values.find("difference");
  if (difference == state.values.end() || !difference->is_number()) return damaged("difference");
  difference_ = difference->get<double>();
  const auto rollouts = state.values.find("rollouts");
  if (rollouts == state.values.end() || !rollouts->is_array()) return damaged("rollouts");
  for (const Json& json : *rollouts) {
    MAKAR_TRY(Rollout r, read_rollout(json, policy_.spec().vocab));
    buffer.starts.push_back(buffer.starts.back() + static_cast<int64_t>(r.tokens.size()) - r.prompt_tokens);
    buffer.rollouts.push_back(std::move(r));
  }
  const bool empty = collections_ == 0;
  if (sampler_kl.size() != 2 || buffer.rewards.size() != buffer.rollouts.size() ||
      (!empty &&
       (static_cast<int64_t>(buffer.rollouts.size()) != o_.answers() || means_.size() != rewards_.size())))
    return damaged("rollouts");
  std::vector<float> sampled;
  for (const auto& [name, to, needed] :
       {std::tuple("sampled", &sampled, true),
        std::tuple("reference", &buffer.reference, reference_.has_value()),
        std::tuple("advantages", &buffer.advantages, true), std::tuple("values", &buffer.values, false),
        std::tuple("returns", &buffer.returns, false)}) {
    const auto it = state.tensors.find(name);
    if (it == state.tensors.end()) {
      if (needed && !empty) return damaged(name);
      continue;
    }
    const Tensor host = it->second.host();
    if (host.dtype() != DType::kF32 || host.count() != buffer.starts.back()) return damaged(name);
    to->assign(host.f32(), host.f32() + host.count());
  }
  for (size_t i = 0; i < buffer.rollouts.size(); ++i)
    buffer.rollouts[i].log_probabilities.assign(sampled.begin() + buffer.starts[i],
                                                sampled.begin() + buffer.starts[i + 1]);
  buffer_ = std::move(buffer);
  sums_ = {};
  sums_.sampler_kl = sampler_kl[0], sums_.tokens = sampler_kl[1];
  return restore_more(state);
}

}  // namespace makar
