// Encodes a rendering. Control tokens are matched only in text from the template; everything between them,
// from the template and the messages, is encoded as one plain text. So ordinary conversations get the same
// ids as in training, and no message can produce a control token. Some models use added tokens that are not
// special as role markers: in messages of roles other than assistant, these are plain text too.
#pragma once
#include <vector>

#include "text/added_vocabulary.h"
#include "text/template/chat_template.h"
#include "text/tokenizer.h"

namespace makar {

struct ChatEncoding {
  std::vector<uint32_t> ids;
  std::vector<Span> offsets;       // bytes of ChatRendering::text()
  std::vector<uint8_t> assistant;  // 1 if the token overlaps a generation block
};

class ChatEncoder {
 public:
  explicit ChatEncoder(Tokenizer tokenizer);
  // `work`: the work budget of the request; null: no limit.
  Result<ChatEncoding> encode(const ChatRendering& rendering, WorkBudget* work = nullptr) const;

 private:
  Tokenizer tokenizer_;
  std::vector<AddedToken> control_tokens_;
  StringFinder finder_;
};

}  // namespace makar
