// A rendering to ids. Control tokens are looked for in what the template wrote and nowhere else; everything
// between them, the template's own words and the messages together, is encoded as one plain text, so ordinary
// conversations get exactly the ids they had in training, and no message can spell a control token.
#pragma once
#include <vector>

#include "text/added_vocabulary.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"

namespace makar {

struct ChatEncoding {
  std::vector<uint32_t> ids;
  std::vector<Span> offsets;       // bytes of ChatRendering::text()
  std::vector<uint8_t> assistant;  // 1 where the token touches a generation block
};

class ChatEncoder {
 public:
  explicit ChatEncoder(Tokenizer tokenizer);
  Result<ChatEncoding> encode(const ChatRendering& rendering) const;

 private:
  Tokenizer tokenizer_;
  std::vector<AddedToken> control_;
  StringFinder finder_;
};

}  // namespace makar
