// Settings of other trainers (Axolotl, Hugging Face, LLaMA-Factory) that have a different name in makar, or
// none.
#pragma once
#include <string>

namespace makar {

// The equivalent of another trainer's key: "in makar: sequence_len", "not needed: ..."; "" if no such trainer
// has the key.
std::string equivalent_setting(const std::string& key);

}  // namespace makar
