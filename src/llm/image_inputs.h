// Images for a language model: image files to pixels, their places in prompts and conversations, and
// vectors of images.
#pragma once
#include "images/image.h"
#include "infer/image_inputs.h"
#include "llm/language_model.h"

namespace makar {

// The pixels that the model reads of an image, [1, 3, height, width]; `name` is for errors. Fails if the
// model reads no images.
Result<Tensor> model_pixels(const LanguageModel& language, const Image& image, const std::string& name);
std::shared_ptr<ImageInputs> join_images(const LanguageModel& language, const std::vector<Tensor>& pixels);
// The same from files.
Result<std::shared_ptr<ImageInputs>> read_image_inputs(const LanguageModel& language,
                                                       const std::vector<std::string>& paths);

// Encodes a prompt whose image places are written as the model's image token, such as <image>; a prompt
// without places gets all images at its start. A model that only describes images has an empty prompt.
Result<std::vector<int64_t>> encode_with_images(const LanguageModel& language, const std::string& text,
                                                ImageInputs& images);
// Encodes a conversation whose messages have parts {"type": "image"}, one per image. For a model that only
// describes images, the messages must not have text.
Result<std::vector<int64_t>> encode_chat_with_images(const LanguageModel& language, const ChatInput& input,
                                                     ImageInputs& images);
// A message of the user: images, then text.
Json image_message(size_t images, const std::string& text);

// [images, width], of length 1: for CLIP the projected vectors, for ViT the states of the class token.
Result<Tensor> image_vectors(const LanguageModel& language, Device& device, const ImageInputs& images);
// The logits of an image classifier. [images, labels]
Result<Tensor> image_logits(const LanguageModel& language, Device& device, const ImageInputs& images);

}  // namespace makar
