// makar pipeline: runs the commands of a YAML file in order, and resumes after an interruption.
#include "train/pipeline.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/run.h"
#include "cli/train_run.h"

namespace makar {
namespace {

std::atomic<int> stage_process{0};  // id of the process that runs the current stage; 0: none
std::atomic<bool> stopped{false};

// A stage saves its state when it is stopped. Ctrl-C reaches it from the terminal; SIGTERM is passed on.
void on_stop(int number) {
  stopped = true;
  if (const int child = stage_process.load(); number == SIGTERM && child > 0) kill(child, number);
}

Status check_commands(const Pipeline& pipeline) {
  std::vector<std::string> known;
  for (const Command& c : commands())
    if (std::string_view(c.name) != "pipeline") known.emplace_back(c.name);
  for (const PipelineStage& stage : pipeline.stages)
    if (std::find(known.begin(), known.end(), stage.command[0]) == known.end())
      return error_at("stage " + stage.name, "makar has no command '{}' for a pipeline{}", stage.command[0],
                      did_you_mean(stage.command[0], known));
  return Done{};
}

// Runs a stage in a process of its own; its exit code, or 128 + the signal that ended it.
Result<int> run_stage(const PipelineStage& stage) {
  std::vector<std::string> arguments = {"/proc/self/exe"};
  arguments.insert(arguments.end(), stage.command.begin(), stage.command.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::fflush(stdout), std::fflush(stderr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {  // only calls that are safe after fork
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  if (child < 0)
    return error_of(Error::Kind::kIo, stage.name, "cannot start a process: {}", std::strerror(errno));
  stage_process = child;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  stage_process = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_all(const Pipeline& pipeline, bool quiet) {
  if (const Status s = make_folder(pipeline.folder()); !s.ok()) return report(s.error());
  auto lock = RunLock::take(pipeline.folder());
  if (!lock.ok()) return report(lock.error());
  auto state = PipelineState::open(pipeline);
  if (!state.ok()) return report(state.error());
  signal(SIGINT, on_stop), signal(SIGTERM, on_stop);
  for (size_t i = 0; i < pipeline.stages.size(); ++i) {
    const PipelineStage& stage = pipeline.stages[i];
    const std::string place = fmt::format("stage {}/{} {}", i + 1, pipeline.stages.size(), stage.name);
    if (state->finished(stage.name)) {
      if (!quiet) fmt::print(stderr, "{}: already finished\n", place);
      continue;
    }
    if (!quiet)
      fmt::print(stderr, "{}: {}\n", place,
                 command_line(stage.command[0], {stage.command.begin() + 1, stage.command.end()}));
    const auto begin = std::chrono::steady_clock::now();
    const auto code = run_stage(stage);
    if (!code.ok()) return report(code.error());
    if (stopped) {
      fmt::print(stderr, "{}: stopped; the same command resumes\n", place);
      return *code == 0 ? 0 : 1;
    }
    if (*code != 0)
      return report(
          error_at(place, "the command ended with exit code {}; run the pipeline again to retry it", *code));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (const Status s = state->add(stage, seconds); !s.ok()) return report(s.error());
  }
  fmt::print("{}: {} finished\n", pipeline.folder(), with_plural(pipeline.stages.size(), "stage"));
  return 0;
}

}  // namespace

int run_pipeline(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool list = false, quiet = false;
  Options options("pipeline",
                  "Run the commands of a YAML file in order, each in its own process. The same command "
                  "resumes after an interruption: finished stages are skipped, and training resumes from its "
                  "last checkpoint.",
                  "makar pipeline recipes/feedback_loop.yaml model=DIR study=ratings/study.jsonl");
  options.positional("FILE", &words, "the pipeline, and values of its variables: NAME=VALUE").required = true;
  options.add("--list", &list, "print the commands as they would be run, and run none");
  options.add("-q --quiet", &quiet, "do not print the stages");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  std::string file;
  std::map<std::string, std::string> variables;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (!file.empty()) return report(error_at(word, "expected one pipeline file, got a second one")), 2;
      file = word;
    } else {
      variables[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  if (file.empty()) return report(error_at("FILE", "is required: the YAML file of the pipeline")), 2;
  const auto text = read_file(file, size_t{1} << 20);
  if (!text.ok()) return report(text.error());
  const auto pipeline = parse_pipeline(*text, file, variables);
  if (!pipeline.ok()) return report(pipeline.error()), 2;
  if (const Status s = check_commands(*pipeline); !s.ok()) return report(s.error()), 2;
  if (!list) return run_all(*pipeline, quiet);
  for (const PipelineStage& stage : pipeline->stages)
    fmt::print("{}: {}\n", stage.name,
               command_line(stage.command[0], {stage.command.begin() + 1, stage.command.end()}));
  return 0;
}

}  // namespace makar
