// Answers of the MATH benchmark (Hendrycks et al., 2021): the last \boxed{...} of a solution.
#pragma once
#include <optional>
#include <string>

namespace makar {

// The content of the last \boxed{...} or \fbox{...}, or after "\boxed " up to the next blank or $. nullopt
// if there is none, or if its braces do not close.
std::optional<std::string> last_boxed(const std::string& text);

// One spelling for forms that mean the same: no blanks, \left, \right, units, currency and percent signs;
// \dfrac{a}{b}, \frac ab and a/b are \frac{a}{b}; \sqrt3 is \sqrt{3}; .5 is 0.5; "x = " at the beginning is
// removed.
std::string normalize_math(std::string text);

}  // namespace makar
