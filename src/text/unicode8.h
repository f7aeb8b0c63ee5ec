// The Hugging Face library asks a table of Unicode 8 for punctuation, nonspacing marks and format characters
// in its BERT stages. Code points of these categories that came later are not in it.
#pragma once

namespace makar {

bool came_after_unicode8(char32_t code);

}  // namespace makar
