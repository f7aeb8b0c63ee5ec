#include "cli/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>

#include "cli/interrupts.h"

namespace makar {
namespace {

constexpr const char* kPasteStart = "\033[200~";
constexpr const wchar_t* kPasteEnd = L"\033[201~";
constexpr size_t kMaxPasteCharacters = size_t{1} << 20;

// Bound to kPasteStart: inserts everything up to kPasteEnd, line breaks included.
unsigned char insert_paste(EditLine* line, wint_t) {
  const std::wstring end = kPasteEnd;
  std::wstring pasted;
  while (!pasted.ends_with(end) && pasted.size() < kMaxPasteCharacters) {
    wchar_t c = 0;
    if (el_wgetc(line, &c) != 1) break;
    pasted += c == L'\r' ? L'\n' : c;
  }
  if (pasted.ends_with(end)) pasted.resize(pasted.size() - end.size());
  while (pasted.ends_with(L'\n')) pasted.pop_back();
  if (pasted.empty() || el_winsertstr(line, pasted.c_str()) == 0) return CC_REFRESH;
  return CC_ERROR;
}

}  // namespace

struct LineEditor::State {
  Interrupts& interrupts;
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string prompt = {};

  static State& of(EditLine* line) {
    State* state = nullptr;
    el_get(line, EL_CLIENTDATA, &state);
    return *state;
  }

  // Waits for a byte from the terminal. -1 after Ctrl-C, also if it came before this call; 0 at the end of
  // input.
  int read_byte(char* out) const {
    while (true) {
      pollfd events[] = {{interrupts.fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
      if (::poll(events, 2, -1) < 0 && errno != EINTR) return -1;
      if (interrupts.pending()) return -1;
      if (events[1].revents == 0) continue;
      const ssize_t got = ::read(STDIN_FILENO, out, 1);
      if (got >= 0 || errno != EINTR) return static_cast<int>(got);
    }
  }

  // Reads one character; -1 and 0 as above.
  static int read_character(EditLine* line, wchar_t* out) {
    std::mbstate_t state = {};
    while (true) {
      char byte = 0;
      if (const int got = of(line).read_byte(&byte); got <= 0) return got;
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue;  // incomplete multibyte character
      if (used == static_cast<size_t>(-1)) *out = static_cast<wchar_t>(static_cast<unsigned char>(byte));
      return 1;
    }
  }
};

LineEditor::LineEditor(Interrupts& interrupts) : state_(new State{interrupts}) {
  std::setlocale(LC_CTYPE, "");  // libedit decodes input by the locale
  state_->history = history_init();
  state_->line = el_init("makar", stdin, stdout, stderr);
  EditLine* line = state_->line;
  if (!line) return;
  HistEvent event;
  if (state_->history) {
    history(state_->history, &event, H_SETSIZE, 1000);
    el_set(line, EL_HIST, history, state_->history);
  }
  el_set(line, EL_CLIENTDATA, state_.get());
  el_set(
      line, EL_PROMPT, +[](EditLine* one) -> char* { return State::of(one).prompt.data(); });
  el_set(line, EL_EDITOR, "emacs");
  el_set(line, EL_SIGNAL, 0);
  el_wset(line, EL_GETCFN, State::read_character);
  el_wset(line, EL_ADDFN, L"insert-paste", L"insert a bracketed paste", insert_paste);
  el_set(line, EL_BIND, kPasteStart, "insert-paste", nullptr);
}

LineEditor::~LineEditor() {
  if (state_->line) el_end(state_->line);
  if (state_->history) history_end(state_->history);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (!state_->line) return std::nullopt;
  state_->prompt = prompt;
  state_->interrupts.take();          // ignore a Ctrl-C pressed after the end of an answer
  std::fputs("\033[?2004h", stdout);  // enable bracketed paste
  std::fflush(stdout);
  int count = 0;
  const char* text = el_gets(state_->line, &count);
  std::fputs("\033[?2004l", stdout);
  std::fflush(stdout);
  if (state_->interrupts.take()) {
    el_reset(state_->line);
    std::fputs("\n", stdout);
    return "";
  }
  if (!text || count <= 0) return std::nullopt;
  std::string out(text, static_cast<size_t>(count));
  if (out.ends_with('\n')) out.pop_back();
  HistEvent event;
  if (!out.empty() && state_->history) history(state_->history, &event, H_ENTER, out.c_str());
  return out;
}

}  // namespace makar
