#pragma once
// One decoded call to the daemon's Service, its answer as the text of a JSON result. Knows nothing
// of lines, ids or connections beyond the number that holds offers.

#include <functional>
#include <string>

#include "base/result.h"
#include "edge/params.h"
#include "edge/requests.h"
#include "edge/service.h"

namespace waybill::edge {

using Answer = std::function<void(Result<std::string>)>;

// `answer` is called at most once: at once, or later on the Service's I/O thread.
void dispatch(Method method, const Params& params, engine::ConnectionId connection,
              Service& service, Answer answer);

}  // namespace waybill::edge
