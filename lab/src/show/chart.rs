//! Charts, in text of one line and as SVG of several. The x axis is logarithmic: what we ask of a curve is
//! how a cost grows when something doubles.

use super::table::number;

const COLUMNS: usize = 60;
const ROWS: usize = 10;

/// A chart in text, y from zero.
pub fn ascii(title: &str, points: &[(f64, f64)]) -> String {
    let Some(frame) = Frame::around(points) else { return format!("{title}\n  (no points)\n") };
    let mut cells = vec![[' '; COLUMNS]; ROWS];
    for &(x, y) in points {
        let column = (frame.along_x(x) * (COLUMNS - 1) as f64).round() as usize;
        let row = (frame.along_y(y) * (ROWS - 1) as f64).round() as usize;
        cells[ROWS - 1 - row][column] = '*';
    }
    let mut text = format!("{title}\n");
    for (index, row) in cells.iter().enumerate() {
        let label = if index == 0 { number(frame.y_max) } else { String::new() };
        let line: String = row.iter().collect();
        text += format!("{label:>10} |{line}").trim_end();
        text.push('\n');
    }
    text += &format!("{:>10} +{}\n", 0, "-".repeat(COLUMNS));
    text + &format!(
        "{:12}{:<half$}{:>half$}\n",
        "",
        number(frame.x_min),
        number(frame.x_max),
        half = COLUMNS / 2
    )
}

/// The area of an SVG chart inside of its axes: left, top, width, height.
const PLOT: (f64, f64, f64, f64) = (70.0, 30.0, 620.0, 310.0);

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it shows; nothing where it is the only one.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// The only line of a chart.
    pub fn only(points: &[(f64, f64)]) -> [Self; 1] {
        [Self { name: String::new(), points: points.to_vec() }]
    }
}

/// How the lines of a chart are told apart.
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "8 3 2 3"];

/// A chart as an SVG document of its own, y from zero.
pub fn svg(title: &str, x: &str, y: &str, lines: &[Series]) -> String {
    let (left, top, width, height) = PLOT;
    let bottom = top + height;
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 390\" font-family=\"sans-serif\" \
         font-size=\"12\">\n",
    );
    label(&mut svg, left, 20.0, "start", title);
    label(&mut svg, left + width / 2.0, bottom + 40.0, "middle", x);
    label(&mut svg, left, top - 2.0 + height / 2.0, "end", y);
    svg += &format!("<path d=\"M{left} {top}V{bottom}h{width}\" fill=\"none\" stroke=\"gray\"/>\n");
    let all: Vec<_> = lines.iter().flat_map(|line| line.points.iter().copied()).collect();
    if let Some(frame) = Frame::around(&all) {
        label(&mut svg, left - 5.0, top + 10.0, "end", &number(frame.y_max));
        label(&mut svg, left, bottom + 20.0, "start", &number(frame.x_min));
        label(&mut svg, left + width, bottom + 20.0, "end", &number(frame.x_max));
        lines
            .iter()
            .zip(DASHES.iter().cycle())
            .for_each(|(line, dashes)| draw(&mut svg, &frame, line, dashes));
    }
    svg + "</svg>\n"
}

/// Draws one line, with its name above its end.
fn draw(svg: &mut String, frame: &Frame, line: &Series, dashes: &str) {
    let (left, top, width, height) = PLOT;
    let place =
        |p: &(f64, f64)| (left + frame.along_x(p.0) * width, top + height - frame.along_y(p.1) * height);
    let points: Vec<String> = line.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if dashes == "none" { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
    *svg += &format!("<polyline points=\"{}\" fill=\"none\" stroke=\"black\"{dashes}/>\n", points.join(" "));
    if let Some((x, y)) = line.points.last().map(place).filter(|_| !line.name.is_empty()) {
        label(svg, x, y - 5.0, "end", &line.name);
    }
}

fn label(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    *svg += &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n");
}

/// The rectangle that holds the points.
struct Frame {
    x_min: f64,
    x_max: f64,
    y_max: f64,
}

impl Frame {
    fn around(points: &[(f64, f64)]) -> Option<Frame> {
        let first = points.first()?;
        let mut frame = Frame { x_min: first.0, x_max: first.0, y_max: first.1 };
        for &(x, y) in points {
            frame.x_min = frame.x_min.min(x);
            frame.x_max = frame.x_max.max(x);
            frame.y_max = frame.y_max.max(y);
        }
        Some(frame)
    }

    /// Where `x` lies, from 0 to 1, on a logarithmic axis.
    fn along_x(&self, x: f64) -> f64 {
        let log = |x: f64| x.max(f64::MIN_POSITIVE).log2();
        share(log(x) - log(self.x_min), log(self.x_max) - log(self.x_min))
    }

    fn along_y(&self, y: f64) -> f64 {
        share(y, self.y_max)
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
#[path = "tests/chart.rs"]
mod tests;
