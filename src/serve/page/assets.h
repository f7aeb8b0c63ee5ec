// The files of the page (web/), compressed when the program was built and kept inside it.
#pragma once
#include <string_view>

#include "serve/http/http.h"

namespace makar {

// The answer to GET of "/", "/app.js" or "/app.css": compressed where the client takes that, 304 where it has
// the file already. The path is one of those.
HttpResponse page_file(const HttpRequest& request);

}  // namespace makar
