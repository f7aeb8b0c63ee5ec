// Any text as a prompt program: a program or an error with a place; a program can be built and run.
#include "apps/prompt.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(apps_prompt) {
  if (size > 20000) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto program = read_prompt_program(text, "p");
  if (!program.ok()) {
    check(program.error().text().size() < 50000, "a bounded message");
    return 0;
  }
  PromptModel model;
  model.fits = [](const std::string& prompt, int64_t) { return Result<bool>(prompt.size() < 4000); };
  int replies = 0;
  model.write = [&](const std::string& prompt, const std::string&, const std::vector<std::string>&, int64_t,
                    uint64_t) -> Result<ModelReply> {
    if (++replies > 2000) return error_at("fuzz", "too many replies");
    return ModelReply{"Follow up: " + prompt.substr(0, 10) + "\n", 1, 1};
  };
  const Json fields = {{"word", "x"}, {"q", "y"}, {"text", "z"}};
  if (const auto run = run_prompt(*program, fields, model); run.ok())
    for (const PromptTest& test : program->tests) (void)test_failure(test, run->output);
  return 0;
}
