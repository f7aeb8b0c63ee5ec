// The text of a PDF file, by the program pdftotext (Debian: poppler-utils).
#pragma once
#include <string>

#include "base/error.h"

namespace makar {

struct PdfLimits {
  size_t output_bytes = size_t{256} << 20;
  int64_t cpu_seconds = 120;
  int64_t memory_bytes = int64_t{2} << 30;
};

// UTF-8; each page ends in a form feed. The file is parsed in a process of its own with limits on memory and
// time, so a damaged or hostile file fails with an error. `program`: another name or path, for tests.
Result<std::string> read_pdf(const std::string& path, const PdfLimits& limits = {},
                             const std::string& program = "pdftotext");

}  // namespace makar
