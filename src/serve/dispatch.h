// From an admitted request to its route's handler: worker lanes, parsing, loading of the model; and functions
// with which handlers pass work to other threads.
#pragma once
#include "serve/call.h"
#include "serve/serve_context.h"

namespace makar {

// Input of this size is prepared in milliseconds; longer input takes the long lane.
constexpr size_t kMaxShortBytes = size_t{64} << 10;

// Runs the handler of call.route on a worker; first parses the body and loads the model if the route needs
// them.
void dispatch(ServeContext& server, const std::shared_ptr<Call>& call);
// A batch line is an ordinary request that does not occupy a gate slot.
void dispatch_batch_line(ServeContext& server, const BatchRecord& record, const Json& body,
                         std::shared_ptr<HttpReply> reply);
// Runs `step` on a worker; `bytes` of input select the lane. An exception fails only this request.
void post_step(ServeContext& server, const std::shared_ptr<Call>& call, size_t bytes,
               std::function<void(Call&)> step);
// Submits a task to the engine of the call's model, with the call's deadline, priority and cancellation.
void submit_task(ServeContext& server, std::shared_ptr<EngineTask> task, Call& call);
// Returns a function that runs its argument, such as serialization, on a worker of the short lane.
std::function<void(std::function<void()>)> on_worker(ServeContext& server, const std::string& caller);
// The time limit of a request: longer for batch lines.
std::chrono::seconds time_limit(const ServeContext& server, const Call& call);

}  // namespace makar
