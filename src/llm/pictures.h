// Pictures for a language model: image files to pixels, their places in prompts and conversations, and
// vectors of pictures.
#pragma once
#include "images/image.h"
#include "infer/pictures.h"
#include "llm/language_model.h"

namespace makar {

// The pixels that the model reads of an image, [1, 3, height, width]; `name` is for errors. Fails if the
// model reads no pictures.
Result<Tensor> model_pixels(const LanguageModel& language, const Image& image, const std::string& name);
std::shared_ptr<Pictures> join_pictures(const LanguageModel& language, const std::vector<Tensor>& pixels);
// The same from files.
Result<std::shared_ptr<Pictures>> read_pictures(const LanguageModel& language,
                                                const std::vector<std::string>& paths);

// Encodes a prompt whose picture places are written as the model's picture token, such as <image>; a prompt
// without places gets all pictures at its start. A model that only describes pictures has an empty prompt.
Result<std::vector<int64_t>> encode_with_pictures(const LanguageModel& language, const std::string& text,
                                                  Pictures& pictures);
// Encodes a conversation whose messages have parts {"type": "image"}, one per picture; none of the others may
// have text if the model only describes pictures.
Result<std::vector<int64_t>> encode_chat_with_pictures(const LanguageModel& language, const ChatInput& input,
                                                       Pictures& pictures);
// A message of the user: pictures, then text.
Json picture_message(size_t pictures, const std::string& text);

// [pictures, width], of length 1: for CLIP the projected vectors, for ViT the states of the class token.
Result<Tensor> picture_vectors(const LanguageModel& language, Device& device, const Pictures& pictures);
// The logits of an image classifier. [pictures, labels]
Result<Tensor> picture_logits(const LanguageModel& language, Device& device, const Pictures& pictures);

}  // namespace makar
