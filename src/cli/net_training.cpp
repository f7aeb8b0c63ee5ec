#include "cli/net_training.h"

#include <fmt/format.h>

#include <algorithm>

#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace makar {

void declare_net_training(Options& o, NetTraining& t, NetOutput& out) {
  o.group("Training");
  o.add("--epochs --num-epochs", &t.epochs, "passes over the data", "N");
  o.add("--batch-size --micro-batch-size", &t.batch, "examples per step", "N");
  o.add("--learning-rate --lr", &t.learning_rate, "peak learning rate", "X");
  o.add("--lr-scheduler", &t.lr_scheduler, fmt::format("schedule: {}", fmt::join(schedule_names(), ", ")),
        "NAME");
  o.add("--optimizer", &t.optimizer, fmt::format("optimiser: {}", fmt::join(optimizer_names(), ", ")),
        "NAME");
  o.add("--weight-decay", &t.weight_decay, "weight decay of the matrices", "X");
  o.add("--max-grad-norm", &t.max_grad_norm, "clip the norm of the gradient; 0: off", "X");
  o.add("--seed", &t.seed, "seed for initialisation, shuffling and noise", "S");
  o.group("Output");
  o.add("-o --output --out", &out.folder, "output folder", "DIR").required = true;
  o.add("-q --quiet", &out.quiet, "print no progress");
  o.add("--json", &out.json, "print the result as JSON");
  declare_threads(o, out.threads);
  declare_device(o, out.device);
}

bool prints_epoch(const NetOutput& out, int64_t epoch, int64_t epochs) {
  return !out.quiet && !out.json && (epoch % std::max<int64_t>(1, epochs / 50) == 0 || epoch == epochs);
}

std::string loss_chart(const std::vector<Curve>& curves) {
  return svg_chart("loss by epoch", curves, XAxis::kSteps);
}

}  // namespace makar
