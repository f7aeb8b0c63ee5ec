#include "serve/call.h"

#include "serve/api/fields.h"
#include "serve/routes/table.h"

namespace makar {

void send_json(Call& call, const Json& body) {
  if (call.model.active && call.model.active->files_lost())
    return send_error(call, call.model.active->files_lost_error());
  HttpResponse response;
  response.body = dump(body) + "\n";
  call.reply->send(std::move(response));
}

void send_error(Call& call, const Error& error) {
  const Error& reported = call.work.stopped() ? call.work.error("time") : error;
  call.reply->failed(reported.text());
  call.reply->send(error_response(call.route->dialect, ApiError::of(reported)));
}

}  // namespace makar
