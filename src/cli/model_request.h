// A request to a language model: a user's message where the model has a chat template, plain text otherwise.
#pragma once
#include <string>
#include <vector>

#include "llm/language_model.h"

namespace makar {

// `begin` is the beginning of the answer, which the model continues.
inline Result<std::vector<int64_t>> encode_request(const LanguageModel& language, const std::string& text,
                                                   const std::string& begin = "") {
  if (!language.chat_template()) return language.encode(text + begin);
  ChatInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", text}}});
  input.add_generation_prompt = begin.empty();
  if (!begin.empty()) {
    input.messages.push_back({{"role", "assistant"}, {"content", begin}});
    input.continue_final_message = true;
  }
  return language.encode_chat(input);
}

}  // namespace makar
