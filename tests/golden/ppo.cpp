// Golden parts of PPO and GRPO.
#include "golden/fixture.h"
#include "train/preference.h"

namespace makar::golden {

std::vector<GoldenLine> run_ppo(const std::string& folder, Device& device) {
  std::vector<GoldenLine> lines;
  auto opened = Fixture::open(folder + "/preference/ppo");
  if (!opened) {
    lines.push_back({"preference/ppo", 0, 0, "fail", opened.error().text()});
    return lines;
  }
  const Fixture& f = *opened;
  Context ctx{device};
  const auto number = [&](const char* name) { return f.json().at(name).get<double>(); };
  const auto add = [&](const std::string& name, const std::function<double()>& body) {
    lines.push_back(measure("preference/ppo." + name, kValueLimit, body));
  };
  const auto advantages = [&] {
    const Tensor rewards = f.get("rewards");
    std::vector<int64_t> starts;
    for (int64_t i = 0; i <= rewards.dim(0); ++i) starts.push_back(i * rewards.dim(1));
    return generalised_advantages(rewards, f.get("values"), starts, number("gamma"), number("lambda"));
  };
  add("advantages", [&] { return relative_error(advantages().advantages, f.get("advantages")); });
  add("returns", [&] { return relative_error(advantages().returns, f.get("returns")); });
  add("whitened_advantages",
      [&] { return relative_error(whiten(advantages().advantages), f.get("whitened_advantages")); });
  add("group_advantages", [&] {
    const Tensor rewards = f.get("group_rewards");
    return relative_error(group_advantages(rewards, rewards.dim(1)), f.get("group_advantages"));
  });
  add("policy_loss", [&] {
    const Tensor loss =
        clipped_policy_loss(ctx, f.on(device, "new_logprobs"), f.on(device, "old_logprobs"),
                            f.on(device, "whitened_advantages"), static_cast<float>(number("clip")));
    return relative_error(loss.host().f32()[0], number("policy_loss"));
  });
  add("value_loss", [&] {
    const Tensor loss = clipped_value_loss(ctx, f.on(device, "new_values"), f.on(device, "values"),
                                           f.on(device, "returns"), static_cast<float>(number("value_clip")));
    return relative_error(loss.host().f32()[0], number("value_loss"));
  });
  return lines;
}

}  // namespace makar::golden
