// What the stages of `makar demo` share: running commands of this program as child processes, showing them,
// and keeping their figures.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace makar {

struct DemoSettings {
  std::string folder = "runs/demo";
  int64_t threads = 0, port = 8080;
  bool quick = false;  // a few steps of everything, for tests
  bool serve = true;   // leave the server running at the end
};

// A result of a stage, and the command that produced it.
struct DemoFigure {
  std::string name, value, command;
};

using CommandWords = std::vector<std::string>;

class DemoRun {
 public:
  explicit DemoRun(DemoSettings settings);

  const DemoSettings& settings() const { return settings_; }
  std::string path(const std::string& name) const { return settings_.folder + "/" + name; }
  // The first value, or the second one with --quick.
  std::string size(int64_t usual, int64_t quick) const {
    return std::to_string(settings_.quick ? quick : usual);
  }

  // Prints `$ makar WORDS`, runs it with this process's standard output and error, and waits for it. An
  // exit status other than 0 is an error. `output`, if not null, receives its standard output, which is shown
  // only with `echo`.
  Status makar(const CommandWords& words, std::string* output = nullptr, bool echo = true);
  // The same with -t if threads are set.
  Status makar_threads(CommandWords words, std::string* output = nullptr, bool echo = true);
  // Starts `makar WORDS` without waiting for it; returns its process id.
  Result<int> start(const CommandWords& words);
  // Sets the server process that wait() waits for.
  void keep_running(int process) { server_ = process; }
  void wait();
  // Any program, found by PATH; its output is not shown.
  Status program(const CommandWords& words, std::string* output);

  // Prints a figure and keeps it, with the last command.
  void figure(const std::string& name, const std::string& value);
  // A paragraph, wrapped; lines after the first are indented.
  void say(const std::string& text, size_t indent = 0) const;
  const std::string& last_command() const { return last_; }
  std::vector<DemoFigure> take_figures() { return std::move(figures_); }
  // "build/makar": what to type to run this program from here.
  const std::string& program_name() const { return name_; }

 private:
  void show(const CommandWords& words);
  Status run(const std::string& program, const CommandWords& words, std::string* output, bool echo);
  DemoSettings settings_;
  std::string executable_, name_, last_;
  std::vector<DemoFigure> figures_;
  int server_ = -1;
};

// Whether a child was stopped by Ctrl-C; the demo stops too.
bool demo_interrupted();

struct DemoStage {
  const char* name;
  const char* headline;
  const char* what;      // one paragraph
  CommandWords outputs;  // files and folders of the demo's folder that the stage makes
  Status (*run)(DemoRun& demo);
};
const std::vector<DemoStage>& demo_stages();

// The values as a plot of `width` columns and `height` rows with an axis, for a terminal.
std::string text_curve(const std::vector<double>& values, size_t width, size_t height);

}  // namespace makar
