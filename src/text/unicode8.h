// The BERT stages of the Hugging Face library use a Unicode 8 table for punctuation, nonspacing marks and
// format characters. Code points of these categories that were added later are not in it.
#pragma once

namespace makar {

bool is_newer_than_unicode8(char32_t code);

}  // namespace makar
