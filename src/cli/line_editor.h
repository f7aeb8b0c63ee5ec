// Lines typed at a terminal, with editing and history; a bracketed paste of several lines stays one input.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace makar {

class Interrupts;

class LineEditor {
 public:
  explicit LineEditor(Interrupts& interrupts);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next input without its line break; nullopt at the end (Ctrl-D). Ctrl-C returns an empty input.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace makar
