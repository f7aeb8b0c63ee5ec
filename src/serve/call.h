// One HTTP request on its way through the server: what its route's handler works on.
#pragma once
#include "base/work_budget.h"
#include "serve/active_model.h"
#include "serve/gate.h"
#include "serve/logged_reply.h"

namespace makar {

struct Route;
class ServedCollection;

struct Call {
  HttpRequest request;
  const Route* route = nullptr;
  std::shared_ptr<LoggedReply> reply;
  std::string owner;         // owner of the files and conversations it sees
  Gate::Ticket ticket = {};  // its place in the gate; empty if it needs none
  bool background = false;   // a batch line: lowest priority
  bool is_long = false;      // prepared in the lane for long work
  WorkBudget work = {};      // cost limit and deadline of preparation
  std::shared_ptr<std::atomic<bool>> disconnected =
      std::make_shared<std::atomic<bool>>(false);     // set when the client disconnects
  Json body = {};                                     // parsed body, if the route runs a model
  ModelLease model = {};                              // named in the body
  std::shared_ptr<ServedCollection> collection = {};  // named in the body; `model` answers from it
};

// Send the response, errors in the format of the route's API. After the deadline of preparation, the error
// sent is the time limit instead of `error`.
void send_json(Call& call, const Json& body);
void send_error(Call& call, const Error& error);

}  // namespace makar
