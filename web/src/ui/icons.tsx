// Line icons, drawn on a grid of 24 x 24.
const paths = {
  chat: "M4 5h16v11H9l-5 4z",
  look: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7-10-7-10-7zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  train: "M4 4v16h16M7 15l4-5 3 3 5-7",
  evaluate: "M5 4h14v16H5zM8 9l1.5 1.5L12 8M14 9.5h2M8 15l1.5 1.5L12 14M14 15.5h2",
  engine: "M5 5h6v6H5zM13 5h6v6h-6zM5 13h6v6H5zM13 13h6v6h-6z",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  knobs: "M4 7h9M17 7h3M4 17h3M11 17h9M13 5v4M11 15v4",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  again: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12l5 5 9-10",
  up: "M7 11v9H4v-9zM7 11l4-8c1.5 0 2.5 1 2.5 2.5V9H19l-1.5 11H7",
  down: "M17 13V4h3v9zM17 13l-4 8c-1.5 0-2.5-1-2.5-2.5V15H5L6.5 4H17",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  bottom: "M6 10l6 6 6-6",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  save: "M12 4v11M7 11l5 5 5-5M5 20h14",
  drop: "M12 4s6 6.5 6 10.5a6 6 0 0 1-12 0C6 10.5 12 4 12 4z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14A8.5 8.5 0 0 1 10 4a8.5 8.5 0 1 0 10 10z",
  both: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
};
export type IconName = keyof typeof paths;

export function Icon({ name, size = 20 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
