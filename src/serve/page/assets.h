// The files of the page (web/), compressed at build time and embedded in the program.
#pragma once
#include <string_view>

#include "serve/http/http.h"

namespace makar {

// The response to GET "/", "/app.js", "/app.css" or "/pdf.js" (the path must be one of these): compressed if
// the client accepts gzip, 304 if its cached copy is current.
HttpResponse page_file(const HttpRequest& request);

}  // namespace makar
