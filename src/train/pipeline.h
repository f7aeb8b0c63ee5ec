// Pipelines: a YAML file of commands that are run one after the other, each in its own process. A stage that
// has finished is not run again, so the same command continues after an interruption; training commands
// resume from their checkpoints.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"

namespace makar {

struct PipelineStage {
  std::string name;                  // letters, digits, '-' and '_'; unique
  std::vector<std::string> command;  // a makar command and its arguments, after substitution
};

struct Pipeline {
  std::map<std::string, std::string> variables;  // always contains "folder"
  std::vector<PipelineStage> stages;
  const std::string& folder() const { return variables.at("folder"); }
};

// variables: {folder: runs/loop, model: DIR}; stages: [{name: pairs, command: [data, feedback, ...]}].
// {name} in a word is replaced by the variable. `overrides` replaces values; a name that the file does not
// have is an error. A variable without a value in the file needs one in `overrides`.
Result<Pipeline> parse_pipeline(const std::string& text, const std::string& place,
                                const std::map<std::string, std::string>& overrides = {});

// The finished stages, stored in FOLDER/pipeline.json.
class PipelineState {
 public:
  // Fails if a finished stage has another command than in `pipeline`.
  static Result<PipelineState> open(const Pipeline& pipeline);
  bool finished(const std::string& stage) const { return finished_.contains(stage); }
  // Written to a temporary file, synced and renamed.
  Status add(const PipelineStage& stage, double seconds);

 private:
  std::string path_;
  Json stages_ = Json::array();
  std::set<std::string> finished_;
};

}  // namespace makar
