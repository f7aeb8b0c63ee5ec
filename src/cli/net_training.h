// What the commands of `makar net` that train share: options, progress and the chart of the losses.
#pragma once
#include <string>
#include <vector>

#include "base/options.h"
#include "cli/model_options.h"
#include "nets/batches.h"
#include "train/svg.h"

namespace makar {

struct NetOutput {
  std::string folder, device = "cpu";
  int64_t threads = 0;
  bool quiet = false, json = false;
};

void declare_net_training(Options& o, NetTraining& t, NetOutput& out);

// Progress has one line per epoch, at most about fifty.
bool prints_epoch(const NetOutput& out, int64_t epoch, int64_t epochs);

std::string loss_chart(const std::vector<Curve>& curves);

}  // namespace makar
