import { type Change, changed } from "./address";
import { reference } from "./api";
import { Link } from "./link";
import type { Cause } from "./schema";
import { number, Text } from "./text";

interface Given {
  causes: Cause[] | null;
  address: URLSearchParams;
  go: (change: Change, replace?: boolean) => void;
}

/** Failures by cause, numbers in the message left aside. */
export function Causes({ causes, address, go }: Given) {
  if (causes && !causes.length) return <p class="nothing">no failed episodes here</p>;
  return (
    <div class="causes" tabIndex={0} role="group" aria-label="Causes of failure">
      <table>
        <thead>
          <tr>
            <th scope="col">episodes</th>
            <th scope="col">kind</th>
            <th scope="col">cause</th>
            <th scope="col">players</th>
            <th scope="col">for instance</th>
          </tr>
        </thead>
        <tbody>
          {(causes ?? []).map((cause) => (
            <tr key={cause.error_kind + cause.cause}>
              <td class="number">
                <button
                  type="button"
                  aria-pressed={address.get("cause") === cause.cause}
                  onClick={() => go({ cause: address.get("cause") === cause.cause ? null : cause.cause })}
                  aria-label={`${cause.count} episodes: filter the list`}
                >
                  {number(cause.count)}
                </button>
              </td>
              <td>{cause.error_kind}</td>
              <td class="message">
                <Text value={cause.example} short />
              </td>
              <td>{cause.players.join(", ")}</td>
              <td>
                {cause.episodes.slice(0, 3).map((row) => (
                  <Link key={row.id} id={`cause-${row.id}`} to={changed(address, { page: "episode", episode: reference(row) })}>
                    {row.episode_id.slice(0, 8)}
                  </Link>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
