#pragma once
// Pages of a job's output, for `logs`.
//
// Raw offsets are exact: pages joined equal the output, gaps apart. A rendered page is rendered on
// its own; so that no character and no carriage-return frame is torn between two pages, a page that
// is not the last one of a finished job ends after its last newline. Without a newline it ends with
// a whole character, and gives out nothing of a line that holds a carriage return, until the line
// is longer than 32 KiB or fills the page. At least 4 bytes are asked for. Where bytes were not
// kept a rendered page says so in a line of its own.

#include <string>

#include "base/result.h"
#include "daemon/log_waits.h"
#include "edge/service.h"
#include "engine/queries.h"

namespace waybill::daemon {

// On the reader's thread.
Result<LogsPage> read_logs(engine::Queries& queries, const std::string& data_dir,
                           const edge::LogsRequest& request);

// The same for a job that is known and the caller's.
Result<LogsPage> read_output(const engine::OutputTarget& target, const std::string& data_dir,
                             const edge::LogsRequest& request);

}  // namespace waybill::daemon
